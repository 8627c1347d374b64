"""How much memory there is, and how much this process has."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")  # of the container, which sees itself as the root; version 2
_MARGIN = 1.25  # for the rows that a worker has in hand


def available_bytes() -> int | None:
    """Return how much memory new processes can have on this machine or in this container; None if it cannot be told."""
    free = []
    with suppress(OSError, StopIteration):
        free.append(_number_in(_MEMINFO, "MemAvailable:") * 1024)
    with suppress(OSError, StopIteration, ValueError):  # without a limit it says "max"
        most, used = (int((_CGROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        cached = _number_in(_CGROUP / "memory.stat", "inactive_file")  # of files, which make way
        free.append(max(0, most - used + cached))
    return min(free, default=None)


def _number_in(file: Path, name: str) -> int:
    lines = (line.split() for line in file.read_text(encoding="utf-8").splitlines())
    return next(int(number) for found, number, *_ in lines if found == name)


def bytes_like_here() -> int:
    """Return how much memory a worker needs that holds what this process does: the same packages and data or model."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
        return int(_MARGIN * pages * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError):  # not Linux
        return 2**30
