"""Work beside the event loop: threads that do one thing after the other, and what was warned of in each."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from multidomain.errors import MultidomainWarning
from multidomain.serve.errors import too_busy

Result = TypeVar("Result")

_here = threading.local()


class Worker:
    """A thread that does jobs in their order, of which a bounded number may wait.

    Parameters
    ----------
    what
        What the jobs are, for the message to those that cannot wait.
    most
        How many may wait.
    threads
        How many threads torch may use.
    """

    def __init__(self, what: str, most: int, *, threads: int = 1) -> None:
        self._what = what
        self._most = most
        self._jobs = 0
        self._thread = ThreadPoolExecutor(1, what, initializer=torch.set_num_threads, initargs=(threads,))

    async def run(self, job: Callable[[], Result]) -> Result:
        """Return what a job returns, or refuse it if too many wait."""
        if self._jobs >= self._most:
            raise too_busy(f"{self._jobs} {self._what} wait already.")
        self._jobs += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, job)
        finally:
            self._jobs -= 1

    def run_from_thread(self, job: Callable[[], Result]) -> Result:
        """Return what a job returns, to a caller that is in a thread of its own and may block."""
        return self._thread.submit(job).result()

    def close(self) -> None:
        """End when all jobs are done."""
        self._thread.shutdown()


@contextmanager
def warnings_by_thread() -> Iterator[None]:
    """Let `said_here` hear what its own thread warns of.

    Python's own means to catch warnings is the whole process's, and would hand the warnings of one request to another.
    """
    show_as_before = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
        said = getattr(_here, "said", None)
        if said is None or not issubclass(category, MultidomainWarning):
            show_as_before(message, category, *rest)
        elif str(message) not in said:
            said.append(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", MultidomainWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        yield


@contextmanager
def said_here() -> Iterator[list[str]]:
    """Yield a list of what is warned of in the block; it is not printed."""
    said: list[str] = []
    _here.said = said
    try:
        yield said
    finally:
        _here.said = None
