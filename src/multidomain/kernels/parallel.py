"""Compiled code in several threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from multidomain.threads import compile_alone, compiled_threads

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
    with ThreadPoolExecutor(compiled_threads(), initializer=compile_alone) as pool:
        return list(pool.map(function, items))


def map_ahead(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Yield the results in the order of the items, computed in threads while earlier ones are used; few are ahead."""
    threads = compiled_threads()
    if threads < 2:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(threads, initializer=compile_alone) as pool:
        ahead: deque[Future[Result]] = deque()
        for item in items:
            ahead.append(pool.submit(function, item))
            if len(ahead) > threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
