"""Figures of a report that are not in the metrics: confidence intervals and counts."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

_Z = 1.959963984540054  # of 95 %


class Interval(NamedTuple):
    """An observed proportion and its confidence interval."""

    share: float
    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Tell whether a value is within the interval."""
        return self.low <= value <= self.high


def wilson(share: float, n: int) -> Interval:
    r"""Return the 95 % Wilson (1927) interval for a proportion observed in n rows.

    .. math:: \frac{p + z^2 / 2n \pm z \sqrt{p (1 - p) / n + z^2 / 4 n^2}}{1 + z^2 / n}

    It keeps its coverage for few rows and for proportions near 0 and 1, where the usual :math:`p \pm z s` does not.
    """
    shrink = 1 + _Z**2 / n
    centre = (share + _Z**2 / (2 * n)) / shrink
    half = _Z * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2)) / shrink
    return Interval(share, min(share, max(0.0, centre - half)), max(share, min(1.0, centre + half)))


def confusion(labels: np.ndarray, answers: np.ndarray, n_classes: int) -> np.ndarray:
    """Count the predictions (columns) for each label (rows)."""
    return np.bincount(labels * n_classes + answers, minlength=n_classes**2).reshape(n_classes, n_classes)


def same_kind_among_neighbours(features: np.ndarray, kinds: np.ndarray, k: int = 10) -> tuple[float, float]:
    """Return the mean fraction of a row's k nearest neighbours of its own kind, and the fraction expected by chance."""
    squares = (features**2).sum(axis=1)
    distances = squares[:, None] + squares - 2 * features @ features.T
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, : min(k, len(features) - 1)]
    _, sizes = np.unique(kinds, return_counts=True)
    n = len(kinds)
    return float((kinds[nearest] == kinds[:, None]).mean()), float((sizes * (sizes - 1)).sum() / (n * (n - 1)))
