"""What an engine does, and the registry of engines."""

from __future__ import annotations

import os
import re
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, Self, TypeVar

from multidomain.engines.memory import available_bytes
from multidomain.errors import ConfigError, Note, WorkerError, WorkerLacksError, counted
from multidomain.registry import Registry

Task = TypeVar("Task")

ATTEMPTS = 3
"""How often a task is begun whose worker dies each time."""

AHEAD = 2
"""Tasks submitted for each worker: one that runs, and one that waits."""


CONNECT_SECONDS = 10
"""How long to wait for a cluster that does not answer."""

_NO_MODULE = re.compile(r"No module named '([\w.]+)'")


@dataclass(frozen=True)
class Outcome(Generic[Task]):
    """A task that has ended, with what it returned or the error that it raised."""

    task: Task
    value: Any = None
    error: Exception | None = None


class Engine(ABC):
    """Runs a function on tasks in worker processes; a context manager that cancels what is still running at its end.

    Parameters
    ----------
    address
        Of a running cluster; None for workers on this machine.
    workers
        Most tasks at a time; by default one for each core of the machine, or all that the cluster can.

    Attributes
    ----------
    task_bytes
        Memory that a task needs; 0 if it is not known.
    """

    def __init__(self, address: str | None = None, workers: int | None = None):
        self.address = address
        self.workers = workers
        self.task_bytes = 0

    def bound_by_memory(self, task_bytes: int) -> Note | None:
        """Run no more tasks at a time than fit into memory; return a note if these are fewer than were asked for.

        To be called before the engine is entered. How many fit into a cluster is known when it is.
        """
        self.task_bytes = task_bytes
        free, wanted = available_bytes(), self.workers or os.cpu_count() or 1
        fitting = wanted if self.address is not None or free is None else max(1, free // task_bytes)
        if fitting >= wanted:
            return None
        self.workers = fitting
        each, there = (f"{n_bytes / 2**30:.1f} GB" for n_bytes in (task_bytes, free or 0))
        return Note(
            f"{counted(self.workers, 'worker')} instead of {wanted}: each needs about {each}, and {there} are free",
            kind="memory-bounds-workers",
        )

    @property
    def at_a_time(self) -> int:
        """How many tasks run at a time; to be asked when the engine is entered."""
        there = max(1, self._slots())
        return min(there, self.workers or there)

    def _slots(self) -> int:
        """Return how many tasks there is room for; on a cluster, as it is now."""
        return self.workers or os.cpu_count() or 1

    def _next(self, waiting: Iterator[Task], running: int, ahead: int) -> Iterator[Task]:
        """Yield the tasks to submit beside those that are under way: none if these are more than there is room for.

        That is so when a cluster has lost workers.
        """
        there = max(1, self._slots())
        most = ahead * there if self.workers is None or self.workers >= there else self.workers
        return islice(waiting, max(0, most - running))

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(self, *exception: object) -> None:
        """Cancel what is still running."""

    @abstractmethod
    def map(
        self, function: Callable[[Task], Any], tasks: Iterable[Task], *, ahead: int = AHEAD
    ) -> Iterator[Outcome[Task]]:
        """Yield the outcome of each task as it ends.

        A task is begun again if its worker dies. At most `ahead` tasks are submitted for each worker, so that any
        number of tasks takes constant memory.

        Parameters
        ----------
        function
            Function of a module, or a `functools.partial` of one; it and the tasks must be picklable.
        ahead
            Tasks submitted for each worker. With 1 none waits for a worker, so that each can be made from the outcomes
            of all tasks that have ended before it begins.
        """


ENGINES: Registry[type[Engine]] = Registry("engine", __package__, "multidomain.engines")


def register(name: str) -> Callable[[type[Engine]], type[Engine]]:
    """Return a decorator that adds an engine to the registry."""

    def decorate(cls: type[Engine]) -> type[Engine]:
        ENGINES.add(name, cls)
        return cls

    return decorate


def worker_died(task: object, times: int = ATTEMPTS) -> WorkerError:
    """Return the error of a task whose worker has died so many times."""
    return WorkerError(
        f"A worker process was killed each of {times} times, perhaps because memory ran out, at: {task}.",
        "Run the command again, with {workers=1} or on a machine with more memory.",
    )


def unreachable(engine: str, address: str | None, error: Exception) -> ConfigError:
    """Return the error of a cluster that cannot be reached."""
    where = f"at '{address}'" if address else "on this machine"
    why = " ".join(str(error).split())[:300]
    return ConfigError(
        f"There is no {engine} cluster {where} that this process can use: {why.rstrip('.')}.",
        "Start one, or check {address=HOST:PORT}, and that it runs the same versions.",
    )


def check_reachable(address: str) -> None:
    """Raise an OSError if nobody listens at an address; engines themselves would try for minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()


def lacks_package(error: BaseException) -> WorkerLacksError | None:
    """Return what to say if a task could not begin since a worker, or the scheduler, cannot import a module."""
    causes: BaseException | None = error
    while causes is not None:
        if missing := _NO_MODULE.search(str(causes)):
            return WorkerLacksError(
                f"A machine of the cluster has no package '{missing[1].partition('.')[0]}'.",
                "Install the same packages on all machines.",
            )
        causes = causes.__cause__
    return None
