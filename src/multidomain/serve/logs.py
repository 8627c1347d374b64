"""A log that clients cannot fill."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

_SECONDS = 60.0
_MOST_KINDS = 100


class OncePerMinute(logging.Filter):
    """Lets one message of each kind pass in a minute; the next one says how many were dropped.

    Messages are of one kind if their templates begin with the same line, and exceptions if they were also raised at
    the same place. Errors of the operating system that asyncio logs, such as too many open files, lose their traceback.

    Parameters
    ----------
    clock
        Returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._seen: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()  # when one passed, dropped since then

    def filter(self, record: logging.LogRecord) -> bool:
        now, kind = self._clock(), _kind(record)
        passed, dropped = self._seen.get(kind, (None, 0))
        if passed is not None and now < passed + _SECONDS:
            self._seen[kind] = passed, dropped + 1
            return False
        self._seen[kind] = now, 0
        self._seen.move_to_end(kind)
        if len(self._seen) > _MOST_KINDS:
            self._seen.popitem(last=False)
        _shorten(record)
        if dropped:
            record.msg = f"{str(record.msg).rstrip()} ({dropped:,} more like it since the last such message)"
        return True


def limit_logs() -> None:
    """Let no client fill the log, through uvicorn or through asyncio."""
    once_per_minute = OncePerMinute()
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(once_per_minute)


def _kind(record: logging.LogRecord) -> Hashable:
    first_line = str(record.msg).partition("\n")[0]
    error = record.exc_info[1] if record.exc_info else None
    trace = error.__traceback__ if error else None
    while trace and trace.tb_next:
        trace = trace.tb_next
    place = (trace.tb_frame.f_code.co_filename, trace.tb_lineno) if trace else None
    return record.name, first_line, type(error), place


def _shorten(record: logging.LogRecord) -> None:
    error = record.exc_info[1] if record.exc_info else None
    if record.name == "asyncio" and isinstance(error, OSError):
        record.msg, record.args = "%s: %s", (record.getMessage().partition("\n")[0], error)
        record.exc_info = record.exc_text = None
