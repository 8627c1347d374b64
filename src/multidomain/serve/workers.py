"""Worker threads beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from multidomain.serve.errors import too_busy

Result = TypeVar("Result")


class Worker:
    """A worker thread with a bounded queue of jobs.

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
            raise too_busy(f"{self._jobs} {self._what} are queued.")
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
