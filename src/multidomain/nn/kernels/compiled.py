"""Compiling inner loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function, and keep the compiled code where that is possible."""
    try:
        return numba.njit(error_model="numpy", cache=True)(function)
    except RuntimeError:  # no folder to keep the compiled code in: compile in each process
        return numba.njit(error_model="numpy")(function)
