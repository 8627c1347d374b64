"""The processes of an engine, for those who kill them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that they have."""
    found = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, task.read_text().split()):
                found += [child, *descendants(child)]
    return found


def has_model_open(pid: int) -> bool:
    """Tell whether a process has read a model: it has loaded the compiled code that does so."""
    try:
        return "safetensors" in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False
