"""Dropping weights, and the columns that no weight is left of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from multidomain.methods.base import Method

AnyMethod = TypeVar("AnyMethod", bound=Method)


def largest(values: np.ndarray, share: float) -> np.ndarray:
    """Return a mask of the largest values, a given share of all, at least one; equal values stay together.

    Examples
    --------
    >>> largest(np.array([3.0, 0.0, 2.0, 2.0]), 0.5)
    array([ True, False,  True,  True])
    """
    if not len(values):
        return np.empty(0, dtype=bool)
    dropped = len(values) - max(1, round(share * len(values)))
    return values >= np.partition(values, dropped)[dropped]


def narrowed(method: AnyMethod, columns: np.ndarray, weights: Mapping[str, np.ndarray]) -> AnyMethod:
    """Return a method that reads some of the columns, with some of the weights replaced."""
    narrow = type(method).untrained(replace(method.task, n_inputs=len(columns)), method.settings)
    narrow.load_weights({**method.weights(), **weights})
    return narrow
