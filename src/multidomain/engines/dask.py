"""A Dask cluster, or Dask on this machine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Self

import dask
from distributed import Client, Future, KilledWorker, LocalCluster, as_completed

from multidomain.engines.base import AHEAD, ATTEMPTS, Engine, Outcome, Task, register, unreachable, worker_died

_CONNECT_SECONDS = 10


@register("dask")
class DaskEngine(Engine):
    """Dask tasks; the scheduler gives one to another worker if its own dies."""

    def __enter__(self) -> Self:
        self._cluster = None
        try:
            if self.address is None:
                dask.config.set({"distributed.scheduler.allowed-failures": ATTEMPTS - 1})
                self._cluster = LocalCluster(
                    n_workers=self.workers,
                    threads_per_worker=1,
                    dashboard_address=None,
                    silence_logs=logging.CRITICAL,
                )
            self._client = Client(self._cluster or self.address, timeout=_CONNECT_SECONDS)
        except (OSError, ValueError) as error:
            raise unreachable("Dask", self.address, error) from error
        self._running: dict[Future, Any] = {}
        return self

    def __exit__(self, *exception: object) -> None:
        self._client.cancel(list(self._running), force=True)
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()

    def map(self, function: Callable[[Task], Any], tasks: Iterable[Task]) -> Iterator[Outcome[Task]]:
        """Yield the outcome of each task as it ends; see `Engine.map`."""
        waiting, running = iter(tasks), self._running
        ended = as_completed()

        def submit(most: int) -> None:
            for task in islice(waiting, most):
                future = self._client.submit(function, task, pure=False)
                running[future] = task
                ended.add(future)

        submit(AHEAD * (self.workers or sum(self._client.nthreads().values()) or 1))
        for future in ended:
            task, error = running.pop(future), future.exception() if future.status == "error" else None
            submit(1)
            if error is None:
                yield Outcome(task, future.result())
            else:
                yield Outcome(task, error=worker_died(task) if isinstance(error, KilledWorker) else error)
            future.release()
