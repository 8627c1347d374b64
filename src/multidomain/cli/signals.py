"""Ctrl-C and SIGTERM: a command stops in good order, says how to go on, and exits as shells expect."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from multidomain.cli.console import err


class Stopped(SystemExit):
    """Raised by a signal in the main thread; the exit code is 128 plus its number.

    An exception, so that what is half written is removed.
    """

    def __init__(self, number: int):
        self.exit_code = 128 + number
        super().__init__(self.exit_code)
        self.by = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        self.hint = ""


def exit_on_signals() -> None:
    """Turn Ctrl-C and SIGTERM into `Stopped`."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped(number)


@contextmanager
def stop_hint(hint: str) -> Iterator[None]:
    """Say how to go on if a signal stops what is in the block."""
    try:
        yield
    except Stopped as stopped:
        stopped.hint = hint
        raise


def print_stopped(stopped: Stopped) -> None:
    """Print by what a command was stopped, and how to go on."""
    err.print(f"stopped by {stopped.by}. {stopped.hint}".strip(), style="yellow", soft_wrap=True)
