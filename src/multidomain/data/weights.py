"""Weights of rows in training."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from multidomain.errors import DataError


def checked_weights(values: Any, where: Callable[[int], str]) -> np.ndarray:
    """Return weights as float64.

    Raises
    ------
    DataError
        One is missing, not a number, negative or not finite.

    Examples
    --------
    >>> checked_weights(["2", 0.5], where=str)
    array([2. , 0.5])
    """
    weights = np.empty(len(values))
    for i, value in enumerate(values):
        try:
            weights[i] = float(value)
        except (TypeError, ValueError):
            weights[i] = math.nan
        if not 0 <= weights[i] < math.inf:
            shown = value.item() if isinstance(value, np.generic) else value
            raise DataError(
                f"{where(i)}: the weight is {shown!r}. Expected a finite number that is not negative.",
                "Correct it. A weight of 0 hides the label of its row.",
            )
    return weights


def check_some_weight(weights: np.ndarray, labelled: np.ndarray, name: str) -> None:
    """Check that not all weights of labelled rows are zero."""
    if labelled.any() and not weights[labelled].any():
        raise DataError(
            f"The weights of all {labelled.sum():,} labelled rows of '{name}' are zero: nothing can be learnt.",
            "Give rows that count a weight above 0.",
        )
