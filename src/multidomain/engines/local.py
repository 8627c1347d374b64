"""Processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any

from multidomain.engines.base import AHEAD, ATTEMPTS, Engine, Outcome, Task, register, worker_died
from multidomain.errors import ConfigError
from multidomain.threads import use_threads

_STOP_SECONDS = 10


@register("local")
class LocalEngine(Engine):
    """A pool of processes of one thread each, started afresh: no process with threads is ever forked."""

    def __init__(self, address: str | None = None, workers: int | None = None):
        if address is not None:
            raise ConfigError(
                "The engine 'local' has no address.", "Leave {address=...} out, or choose a cluster's engine."
            )
        super().__init__(None, workers or os.cpu_count() or 1)
        self._pool: ProcessPoolExecutor | None = None

    def __exit__(self, *exception: object) -> None:
        self._stop()

    def map(
        self, function: Callable[[Task], Any], tasks: Iterable[Task], *, ahead: int = AHEAD
    ) -> Iterator[Outcome[Task]]:
        """Yield the outcome of each task as it ends; see `Engine.map`.

        If a worker dies, the pool goes with it, and which task it had is not known. So the tasks that were under way
        then run one at a time, until each has ended or killed its worker often enough.
        """
        waiting, running, suspects = iter(tasks), dict[Future[Any], Task](), deque[tuple[Task, int]]()
        while True:
            try:
                while suspects:
                    yield self._alone(function, suspects)
                for task in self._next(waiting, len(running), ahead):
                    suspects.append((task, 0))
                    running[self._submitted(function, task)] = task
                    suspects.clear()
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield self._outcome(future, running[future])
                    del running[future]
            except BrokenProcessPool:
                self._stop()
                suspects.extend((task, 1) for task in running.values())
                running.clear()

    def _alone(self, function: Callable[[Task], Any], suspects: deque[tuple[Task, int]]) -> Outcome[Task]:
        """Return the outcome of the first of these tasks."""
        task, attempts = suspects.popleft()
        while attempts < ATTEMPTS:
            try:
                return self._outcome(self._submitted(function, task), task)
            except BrokenProcessPool:
                self._stop()
                attempts += 1
        return Outcome(task, error=worker_died(task))

    def _submitted(self, function: Callable[[Task], Any], task: Task) -> Future[Any]:
        with without_ctrl_c():  # workers start here, and one that is starting would print a traceback
            return self._started().submit(function, task)

    @staticmethod
    def _outcome(future: Future[Any], task: Task) -> Outcome[Task]:
        try:
            return Outcome(task, future.result())
        except BrokenProcessPool:
            raise
        except Exception as error:
            return Outcome(task, error=error)

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(
                self.workers, mp_context=context, initializer=start_worker, initargs=(os.getpid(),)
            )
        return self._pool

    def _stop(self) -> None:
        """End the workers, whatever they do."""
        if self._pool is None:
            return
        pool, self._pool = self._pool, None
        workers = list((pool._processes or {}).values())
        manager: Any = pool._executor_manager_thread
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.terminate()
        if manager is not None:
            manager.join(_STOP_SECONDS)  # as it ends it closes a pipe, which Python writes to at exit


def start_worker(parent: int) -> None:
    """Use one thread, leave Ctrl-C to the parent process, and exit when that is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _mask_ctrl_c(signal.SIG_UNBLOCK)
    use_threads(1)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def without_ctrl_c() -> Iterator[None]:
    """Hold Ctrl-C back, here and in processes that are started, until these have a handler of their own."""
    if sys.platform != "win32":
        resource_tracker.ensure_running()  # otherwise it starts with the first process, and then lets signals through
    _mask_ctrl_c(signal.SIG_BLOCK)
    try:
        yield
    finally:
        _mask_ctrl_c(signal.SIG_UNBLOCK)


def _mask_ctrl_c(how: int) -> None:
    if sys.platform != "win32":
        signal.pthread_sigmask(how, {signal.SIGINT})
