"""A Spark cluster, or Spark on this machine."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from typing import Any, Self

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from multidomain.engines.base import (
    AHEAD,
    ATTEMPTS,
    Engine,
    Outcome,
    Task,
    check_reachable,
    lacks_package,
    register,
    unreachable,
    worker_died,
)

_MOST_THREADS = 1000  # of the driver, each of which waits for a job
_SETTINGS = {
    "spark.app.name": "multidomain",
    "spark.log.level": "OFF",  # what is wrong is said here
    "spark.task.maxFailures": str(ATTEMPTS),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@register("spark")
class SparkEngine(Engine):
    """Spark jobs of one task each; Spark itself begins one again whose worker dies.

    The address is a master: ``spark://HOST:PORT``, ``yarn``, ``local-cluster[2,1,1024]`` and so on.
    """

    def __enter__(self) -> Self:
        master = self.address or f"local[{self.workers or '*'},{ATTEMPTS}]"
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # of the workers too, in place of any "python3"
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # nobody else is to connect
        conf = pyspark.SparkConf().setMaster(master).setAll(list(_SETTINGS.items()))
        try:
            if master.startswith("spark://"):
                check_reachable(master)
            with _signals_kept():
                self._context = pyspark.SparkContext(conf=conf)
        except (OSError, ValueError, Py4JError, PySparkException) as error:
            raise unreachable("Spark", self.address, error) from error
        self._jobs = uuid.uuid4().hex  # a name for all of them
        self._threads = ThreadPoolExecutor(_MOST_THREADS)
        return self

    def __exit__(self, *exception: object) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._context.cancelJobGroup(self._jobs)
        self._context.stop()

    def _slots(self) -> int:
        """Return how many cores the cluster has, and no more than threads that wait for them."""
        return min(_MOST_THREADS, self._context.defaultParallelism)

    def map(
        self, function: Callable[[Task], Any], tasks: Iterable[Task], *, ahead: int = AHEAD
    ) -> Iterator[Outcome[Task]]:
        """Yield the outcome of each task as it ends; see `Engine.map`."""
        waiting, running = iter(tasks), dict[Future[Outcome[Task]], Task]()
        while True:
            for task in self._next(waiting, len(running), ahead):
                running[self._threads.submit(self._outcome, function, task)] = task
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                del running[future]
                yield future.result()

    def _outcome(self, function: Callable[[Task], Any], task: Task) -> Outcome[Task]:
        """Run a task as a job, and wait for it in a thread of the driver."""
        self._context.setJobGroup(self._jobs, "multidomain", interruptOnCancel=True)
        try:
            value, error = self._context.parallelize([task], 1).map(partial(_called, function)).collect()[0]
        except Py4JError as failed:
            return Outcome(task, error=lacks_package(failed) or worker_died(task))
        return Outcome(task, value, error)


def _called(function: Callable[[Task], Any], task: Task) -> tuple[Any, Exception | None]:
    """Return a result or an error: of an error that is raised, Spark would keep the text and begin the task again."""
    try:
        return function(task), None
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return None, RuntimeError(f"{type(error).__name__}: {error}")
        return None, error


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Keep Ctrl-C as it is, of which Spark makes a `KeyboardInterrupt`."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
