"""Worker threads beside the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from starlette.types import Receive

from multidomain.serve.errors import too_busy
from multidomain.threads import use_threads

Result = TypeVar("Result")


class WorkerThread:
    """A worker thread with a bounded queue of jobs.

    Parameters
    ----------
    what
        What the jobs are, for the message to those that cannot wait.
    most
        How many may wait.
    threads
        How many threads numerical libraries may use.
    """

    def __init__(self, what: str, most: int, *, threads: int = 1) -> None:
        self._what = what
        self._most = most
        self._jobs = 0
        self._thread = ThreadPoolExecutor(1, what, initializer=use_threads, initargs=(threads,))

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


class ClientLeft(Exception):
    """The client has disconnected before its answer was complete."""


async def while_connected(receive: Receive, work: Coroutine[Any, Any, Result], abandoned: threading.Event) -> Result:
    """Return the result of some work, unless the client leaves before.

    Parameters
    ----------
    receive
        Of a request whose body was received.
    abandoned
        Set at the end, so that a thread can tell that its result is not waited for.

    Raises
    ------
    ClientLeft
        It has, and the work is cancelled.
    """
    working, leaving = asyncio.create_task(work), asyncio.create_task(_disconnect(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientLeft
        return working.result()
    finally:
        abandoned.set()
        working.cancel()
        leaving.cancel()


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
