"""Compiling inner loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function, and cache the compiled code if possible."""
    try:
        return numba.njit(error_model="numpy", cache=True)(function)
    except RuntimeError:  # no folder for the cache: compile in each process
        return numba.njit(error_model="numpy")(function)
