"""Compiled code in several threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from multidomain.threads import compiled_threads

Item = TypeVar("Item")
Result = TypeVar("Result")

_MOST_ROWS = 8192


def chunks(rows: int) -> list[slice]:
    """Return the rows in parts that fit into memory and keep all threads of compiled code busy."""
    threads = compiled_threads()
    parts = 1 if threads == 1 else 4 * threads  # while one thread runs Python, the others run compiled code
    size = max(1, min(_MOST_ROWS, -(-rows // parts)))
    return [slice(start, min(rows, start + size)) for start in range(0, rows, size)] or [slice(0, 0)]


def map_in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Return the results in the order of the items; worth it if the function spends its time outside Python."""
    if min(compiled_threads(), len(items)) < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(compiled_threads()) as pool:
        return list(pool.map(function, items))
