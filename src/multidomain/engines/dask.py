"""A Dask cluster, or Dask on this machine."""

from __future__ import annotations

import logging
import platform
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Self

import cloudpickle
import dask
import distributed
from distributed import Client, Future, KilledWorker, LocalCluster, as_completed, wait

from multidomain.engines.base import (
    AHEAD,
    ATTEMPTS,
    CONNECT_SECONDS,
    Engine,
    Outcome,
    Task,
    lacks_package,
    register,
    unreachable,
    worker_died,
)
from multidomain.errors import WorkerError

_ONE_AT_A_TIME = threading.Lock()
_REPEAT = "Start it again, and repeat the command."


@contextmanager
def _connected() -> Iterator[None]:
    """Say what it means if a block finds no scheduler any more."""
    try:
        yield
    except (OSError, CancelledError) as error:
        # Dask would print tracebacks as it tries to connect again.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        raise WorkerError("The Dask cluster has ended, or cannot be reached any more.", _REPEAT) from error


def _alone_in_process(function: Callable[[Task], Any], task: Task) -> Any:
    """Run a task when no other one runs in this process, whose threads and working directory tasks set."""
    with _ONE_AT_A_TIME:
        return function(task)


def _by_value(called: bytes) -> Callable[[], Any]:
    """Return a function that knows nothing of this package until it runs.

    Dask pickles a function in a function as a whole. A worker that cannot import what it is sent ends, and nobody is
    told; this way that is an error of the task.
    """

    def call() -> Any:
        import pickle

        return pickle.loads(called)()

    return call


@register("dask")
class DaskEngine(Engine):
    """Dask tasks, one at a time in each worker process."""

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
            self._client = Client(self._cluster or self.address, timeout=CONNECT_SECONDS)
        except (OSError, ValueError) as error:
            raise unreachable("Dask", self.address, error) from error
        self._running: dict[Future, Any] = {}
        try:
            self._client.wait_for_workers(1, timeout=CONNECT_SECONDS)
            self._check_versions()
        except (OSError, ValueError) as error:
            self.__exit__()
            raise unreachable("Dask", self.address, error) from error
        return self

    def _check_versions(self) -> None:
        """Refuse machines that run another Dask or Python: what they send each other may not be understood."""
        here = distributed.__version__, ".".join(platform.python_version_tuple()[:2])
        versions = self._client.get_versions()
        for name, found in (("scheduler", versions["scheduler"]), *versions["workers"].items()):
            there = found["packages"]["distributed"], ".".join(found["host"]["python"].split(".")[:2])
            if there != here:
                of = "the scheduler has" if name == "scheduler" else f"the worker {name} has"
                raise ValueError(f"{of} Dask {there[0]} on Python {there[1]}, this process {here[0]} on {here[1]}")

    def _slots(self) -> int:
        """Return how many workers there are, those with too little memory for a task left out if there are others."""
        with _connected():
            if self.address is None or not self.task_bytes:
                return len(self._client.nthreads())
            limits = self._client.run_on_scheduler(
                lambda dask_scheduler: [worker.memory_limit for worker in dask_scheduler.workers.values()]
            )
        return sum(not limit or limit >= self.task_bytes for limit in limits)

    def __exit__(self, *exception: object) -> None:
        with suppress(OSError, CancelledError):  # it may be gone
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
        waiting, running, suspects = iter(tasks), self._running, deque[tuple[Task, int]]()
        ended = as_completed()
        while True:
            if not suspects:
                for task in self._next(waiting, len(running), ahead):
                    ended.add(self._submitted(function, task))
            if running:
                future = next(ended)
                outcome = _outcome(future, running.pop(future))
                if isinstance(outcome.error, KilledWorker):
                    suspects.append((outcome.task, outcome.error.allowed_failures + 1))
                else:
                    yield outcome
            elif suspects:
                yield self._alone(function, *suspects.popleft())
            else:
                return

    def _submitted(self, function: Callable[[Task], Any], task: Task) -> Future:
        called = cloudpickle.dumps(partial(_alone_in_process, function, task))
        with _connected():
            future = self._client.submit(_by_value(called), pure=False)
        self._running[future] = task
        return future

    def _alone(self, function: Callable[[Task], Any], task: Task, before: int) -> Outcome[Task]:
        """Return the outcome of a task whose worker has died so many times before, perhaps of other tasks."""
        deaths = 0
        while deaths < ATTEMPTS - 1:
            future = self._submitted(function, task)
            wait(future)
            outcome = _outcome(future, self._running.pop(future))
            if not isinstance(outcome.error, KilledWorker):
                return outcome
            deaths += outcome.error.allowed_failures + 1
        return Outcome(task, error=worker_died(task, before + deaths))


def _outcome(future: Future, task: Task) -> Outcome[Task]:
    outcome: Outcome[Task]
    with _connected():
        error = future.exception() if future.status == "error" else None
        try:
            outcome = Outcome(task, error=lacks_package(error) or error) if error else Outcome(task, future.result())
        except KilledWorker as killed:  # the worker that had the result, and then those that were to compute it again
            outcome = Outcome(task, error=killed)
        future.release()
    return outcome
