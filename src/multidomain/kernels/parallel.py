"""CPU threads of compiled code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_MOST_ROWS = 8192
_number = 1


def set_threads(number: int) -> None:
    """Use so many threads from now on; results do not depend on it."""
    global _number
    _number = number


def threads() -> int:
    """Return how many threads are used."""
    return _number


def chunks(rows: int) -> list[slice]:
    """Return the rows in parts that fit into memory and keep all threads busy."""
    parts = 1 if threads() == 1 else 4 * threads()  # while one thread runs Python, the others run compiled code
    size = max(1, min(_MOST_ROWS, -(-rows // parts)))
    return [slice(start, min(rows, start + size)) for start in range(0, rows, size)] or [slice(0, 0)]


def map_in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Return the results in the order of the items; worth it if the function spends its time outside Python."""
    if min(threads(), len(items)) < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(threads()) as pool:
        return list(pool.map(function, items))
