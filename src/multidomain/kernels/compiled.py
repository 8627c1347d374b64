"""Compiling inner loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that other threads may run beside, and cache the compiled code if possible."""
    try:
        return numba.njit(error_model="numpy", nogil=True, cache=True)(function)
    except RuntimeError:  # no folder for the cache: compile in each process
        return numba.njit(error_model="numpy", nogil=True)(function)
