"""What an engine does, and the registry of engines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from multidomain.errors import ConfigError, WorkerError
from multidomain.registry import Registry

Task = TypeVar("Task")

ATTEMPTS = 3
"""How often a task is begun whose worker dies each time."""

AHEAD = 2
"""Tasks submitted for each worker: one that runs, and one that waits."""


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
        Number of tasks at a time; by default one for each core of the machine or cluster.
    """

    def __init__(self, address: str | None = None, workers: int | None = None):
        self.address = address
        self.workers = workers

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


def worker_died(task: object) -> WorkerError:
    """Return the error of a task whose worker has died `ATTEMPTS` times."""
    return WorkerError(
        f"A worker process was killed each of {ATTEMPTS} times, perhaps because memory ran out, at: {task}.",
        "Run the command again, with {workers=1} or on a machine with more memory.",
    )


def unreachable(engine: str, address: str | None, error: Exception) -> ConfigError:
    """Return the error of a cluster that cannot be reached."""
    where = f"at '{address}'" if address else "on this machine"
    why = " ".join(str(error).split())[:300]
    return ConfigError(
        f"There is no {engine} cluster {where} that this process can use: {why}.",
        "Start one, or check {address=HOST:PORT}, and that it runs the same versions.",
    )
