"""How many threads compiled code and numerical libraries may use."""

from __future__ import annotations

import os
import sys
import threading

_compiled_threads = 1
_own = threading.local()


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
    return getattr(_own, "threads", _compiled_threads)


def compile_alone() -> None:
    """Let compiled code use one thread if it is called from this one, which is one of several."""
    _own.threads = 1
