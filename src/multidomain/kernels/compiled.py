"""Compiling inner loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

_Function = Callable[..., Any]


def compiled(function: _Function) -> _Function:
    """Compile a function that other threads may run beside, and cache the compiled code if possible."""
    return _compiled(function)


def compiled_in_any_order(function: _Function) -> _Function:
    """Compile a function whose sums may be added up in another order, so that several terms are added at once."""
    return _compiled(function, fastmath={"reassoc", "contract", "nsz"})


def _compiled(function: _Function, **options: Any) -> _Function:
    try:
        return numba.njit(error_model="numpy", nogil=True, cache=True, **options)(function)
    except RuntimeError:  # no folder for the cache: compile in each process
        return numba.njit(error_model="numpy", nogil=True, **options)(function)
