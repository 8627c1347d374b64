"""How many threads numerical libraries may use."""

from __future__ import annotations

import os
import sys


def use_threads(n: int) -> None:
    """Let NumPy, SciPy and torch use so many threads; torch may be imported before or after."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(n)
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(n)
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(n)


def threads_in_use() -> int:
    """Return how many threads torch uses, or would use if it were imported."""
    if "torch" in sys.modules:
        import torch

        return torch.get_num_threads()
    given = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(given) if given.isdigit() else os.cpu_count() or 1
