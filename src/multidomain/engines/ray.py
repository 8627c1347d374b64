"""A Ray cluster, or Ray on this machine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import Any, Self

import ray
from ray.exceptions import RayError, RayTaskError

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
from multidomain.errors import MultidomainError


def _raised(error: RayTaskError) -> Exception:
    """Return what the function raised, or that a worker could not import it."""
    if isinstance(error.cause, MultidomainError):
        return error.cause
    return lacks_package(error) or (error.cause if isinstance(error.cause, Exception) else error)


@register("ray")
class RayEngine(Engine):
    """Ray tasks of one core each; Ray itself begins one again whose worker or node dies."""

    def __enter__(self) -> Self:
        quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
        try:
            if self.address is None:
                ray.init("local", num_cpus=self.workers, include_dashboard=False, **quiet)
            else:
                check_reachable(self.address)
                ray.init(self.address, **quiet)
        except (ConnectionError, RuntimeError, ValueError, OSError, RayError) as error:
            raise unreachable("Ray", self.address, error) from error
        self._running: dict[Any, Any] = {}
        return self

    def __exit__(self, *exception: object) -> None:
        for reference in self._running:
            ray.cancel(reference, force=True)
        ray.shutdown()

    def _slots(self) -> int:
        """Return how many tasks the cluster has cores and memory for."""
        there = ray.cluster_resources()
        by_memory = there.get("memory", 0) / self.task_bytes if self.task_bytes and self.address else inf
        return int(min(there.get("CPU", 1), by_memory))

    def map(
        self, function: Callable[[Task], Any], tasks: Iterable[Task], *, ahead: int = AHEAD
    ) -> Iterator[Outcome[Task]]:
        """Yield the outcome of each task as it ends; see `Engine.map`."""
        remote = ray.remote(num_cpus=1, max_retries=ATTEMPTS - 1)(lambda task: function(task))
        waiting, running = iter(tasks), self._running
        while True:
            for task in self._next(waiting, len(running), ahead):
                running[remote.remote(task)] = task
            if not running:
                return
            ended, _ = ray.wait(list(running), num_returns=1)
            for reference in ended:
                task = running.pop(reference)
                try:
                    yield Outcome(task, ray.get(reference))
                except RayTaskError as error:
                    yield Outcome(task, error=_raised(error))
                except RayError:
                    yield Outcome(task, error=worker_died(task))
