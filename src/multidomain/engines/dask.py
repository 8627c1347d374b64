"""A Dask cluster, or Dask on this machine."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Self

import dask
from distributed import Client, Future, KilledWorker, LocalCluster, as_completed, wait

from multidomain.engines.base import AHEAD, ATTEMPTS, Engine, Outcome, Task, register, unreachable, worker_died

_CONNECT_SECONDS = 10


@register("dask")
class DaskEngine(Engine):
    """Dask tasks of one thread each."""

    def __enter__(self) -> Self:
        self._cluster = None
        try:
            if self.address is None:
                dask.config.set({"distributed.scheduler.allowed-failures": 0})  # each is seen here
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

    def map(
        self, function: Callable[[Task], Any], tasks: Iterable[Task], *, ahead: int = AHEAD
    ) -> Iterator[Outcome[Task]]:
        """Yield the outcome of each task as it ends; see `Engine.map`.

        If a worker dies, Dask holds that against all tasks that it had been given. So those then run one at a time,
        until each has ended or killed its worker often enough.
        """
        waiting, running, suspects = iter(tasks), self._running, deque[Task]()
        most = ahead * (self.workers or sum(self._client.nthreads().values()) or 1)
        ended = as_completed()
        while True:
            if not suspects:
                for task in islice(waiting, most - len(running)):
                    future = self._client.submit(function, task, pure=False)
                    running[future] = task
                    ended.add(future)
            if running:
                future = next(ended)
                outcome = _outcome(future, running.pop(future))
                if isinstance(outcome.error, KilledWorker):
                    suspects.append(outcome.task)
                else:
                    yield outcome
            elif suspects:
                yield self._alone(function, suspects.popleft())
            else:
                return

    def _alone(self, function: Callable[[Task], Any], task: Task) -> Outcome[Task]:
        """Return the outcome of a task whose worker has died once, perhaps of another task."""
        deaths = 1
        while deaths < ATTEMPTS:
            future = self._client.submit(function, task, pure=False)
            self._running[future] = task
            wait(future)
            outcome = _outcome(future, self._running.pop(future))
            if not isinstance(outcome.error, KilledWorker):
                return outcome
            deaths += outcome.error.allowed_failures + 1
        return Outcome(task, error=worker_died(task))


def _outcome(future: Future, task: Task) -> Outcome[Task]:
    error = future.exception() if future.status == "error" else None
    outcome = Outcome(task, error=error) if error else Outcome(task, future.result())
    future.release()
    return outcome
