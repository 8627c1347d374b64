"""How many threads compiled code and numerical libraries may use."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_MOST_ROWS = 8192
_compiled_threads = 1


def use_threads(n: int) -> None:
    """Let compiled code, NumPy, SciPy and torch use so many threads; torch may be imported before or after."""
    global _compiled_threads
    from threadpoolctl import threadpool_limits

    threadpool_limits(n)
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(n)
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(n)
    _compiled_threads = n


def threads_in_use() -> int:
    """Return how many threads torch uses, or would use if it were imported."""
    if "torch" in sys.modules:
        import torch

        return torch.get_num_threads()
    given = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(given) if given.isdigit() else os.cpu_count() or 1


def compiled_threads() -> int:
    """Return how many threads compiled code uses: 1, unless `use_threads` was called; results do not depend on it."""
    return _compiled_threads


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
