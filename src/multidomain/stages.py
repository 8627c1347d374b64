"""Progress of work that takes long: loops say how far they are, and whoever listens shows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias, TypeVar

Item = TypeVar("Item")
Listener: TypeAlias = Callable[[str, int, int], None]
"""Called with the name of a stage, and how many of how many steps are done."""

PAUSE = 5.0
"""Seconds between two reports: a stage that takes less is not reported at all."""

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def reported_to(listener: Listener) -> Iterator[None]:
    """Report the stages of the block; those in other threads are not."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def stage(name: str, items: Iterable[Item], total: int) -> Iterator[Item]:
    """Yield the items, and report now and then how many of them are done."""
    listener = _listener.get()
    reported = time.monotonic()
    for done, item in enumerate(items):
        if listener is not None and time.monotonic() - reported > PAUSE:
            listener(name, done, total)
            reported = time.monotonic()
        yield item
