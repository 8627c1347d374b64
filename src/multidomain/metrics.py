"""Metrics, as pure functions that every layer may use."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np


def by_domain(
    score: Callable[[np.ndarray, np.ndarray], float], y: np.ndarray, predicted: np.ndarray, domains: np.ndarray
) -> dict:
    """Return a metric per domain, in order of first appearance.

    Examples
    --------
    >>> y, predicted = np.array([0, 1, 1]), np.array([0, 1, 0])
    >>> by_domain(accuracy, y, predicted, np.array(["books", "books", "pans"]))
    {'books': 1.0, 'pans': 0.0}
    """
    return {d: score(y[domains == d], predicted[domains == d]) for d in dict.fromkeys(domains.tolist())}


def accuracy(y: np.ndarray, predicted: np.ndarray) -> float:
    """Return the share of correct predictions."""
    return float((y == predicted).mean())


def macro_f1(y: np.ndarray, predicted: np.ndarray) -> float:
    """Return the mean F1 over classes that occur in labels or predictions."""
    scores = []
    for c in set(y.tolist()) | set(predicted.tolist()):
        is_class, is_predicted = y == c, predicted == c
        scores.append(2 * int((is_class & is_predicted).sum()) / (int(is_class.sum()) + int(is_predicted.sum())))
    return float(np.mean(scores))


def calibration_error(y: np.ndarray, probabilities: np.ndarray, bins: int = 15) -> float:
    """Return the expected calibration error: how far confidence is from accuracy, in bins of equal mass.

    Parameters
    ----------
    y
        Class codes.
    probabilities
        Shape (rows, classes).

    Examples
    --------
    >>> calibration_error(np.array([0, 1]), np.array([[0.8, 0.2], [0.8, 0.2]]), bins=1).__round__(2)
    0.3
    """
    confidence, correct = probabilities.max(axis=1), probabilities.argmax(axis=1) == y
    parts = np.array_split(np.argsort(confidence, kind="stable"), min(bins, len(y)))
    gaps = [abs(float(correct[rows].mean()) - float(confidence[rows].mean())) * len(rows) for rows in parts]
    return sum(gaps) / len(y)


def domain_mean(scores: Iterable[float]) -> float:
    """Return the unweighted mean over domains (as in the paper)."""
    return float(np.mean(list(scores)))


def two_class_scores(score: np.ndarray) -> np.ndarray:
    """Return the scores of both classes, -s/2 and s/2, for scores `s` of the second, along a new last axis.

    Examples
    --------
    >>> two_class_scores(np.array([3.0, -1.0]))
    array([[-1.5,  1.5],
           [ 0.5, -0.5]])
    """
    return np.stack([-score, score], axis=-1) / 2
