"""Signals that wait until the state of training can be saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from multidomain.nn.collectives import are_joined


class HeldSignal:
    """The signal that has come, if one has.

    Attributes
    ----------
    number
        None if none has.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._handlers: dict[int, Any] = {}

    def hold(self) -> None:
        """Hold Ctrl-C and SIGTERM from now on, unless they are ignored or not handled by Python.

        Other threads than the main one get none.
        """
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._handlers[number] = signal.signal(number, self._came)

    def release(self) -> None:
        """Let signals take their course again, and the one that has come now."""
        handlers, self._handlers = self._handlers, {}
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if handlers and self.number is not None:
            signal.raise_signal(self.number)

    def _came(self, number: int, frame: FrameType | None) -> None:
        # Of processes that train together each gets one from the terminal and the same one again from torchrun.
        is_second = self.number is not None and not (are_joined() and number == self.number)
        self.number = number
        if is_second:  # the user does not want to wait
            self.release()


@contextmanager
def held_signals() -> Iterator[HeldSignal]:
    """Hold Ctrl-C and SIGTERM while a block runs, which should end soon after one has come; a second one is not held,
    unless several processes train together and it is the same again.

    After the block the signal has the effect that it would have had.
    """
    held = HeldSignal()
    held.hold()
    try:
        yield held
    finally:
        held.release()
