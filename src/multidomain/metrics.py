"""Metrics, as pure functions that every layer may use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

import numpy as np

CALIBRATION_BINS = 15

Metric: TypeAlias = Literal["accuracy", "macro-f1", "worst-domain"]
"""What selects a model."""

METRIC_NAMES: dict[Metric, str] = {
    "accuracy": "accuracy",
    "macro-f1": "macro-F1",
    "worst-domain": "accuracy in the worst domain",
}


def rows_of_each(values: np.ndarray) -> dict[Any, np.ndarray]:
    """Return the row numbers of each value, ascending; values are in order of first appearance.

    One pass over the rows, however many values (domains, mostly) there are.

    Examples
    --------
    >>> rows_of_each(np.array(["pans", "books", "pans"]))
    {'pans': array([0, 2]), 'books': array([1])}
    """
    codes: dict[Any, int] = {}
    code_of_row = np.array([codes.setdefault(value, len(codes)) for value in values.tolist()], dtype=np.int64)
    by_code = np.argsort(code_of_row, kind="stable")
    return dict(zip(codes, np.split(by_code, np.cumsum(np.bincount(code_of_row))[:-1]), strict=bool(codes)))


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
    return {d: score(y[rows], predicted[rows]) for d, rows in rows_of_each(domains).items()}


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


def calibration_error(y: np.ndarray, probabilities: np.ndarray, bins: int = CALIBRATION_BINS) -> float:
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
    parts = equal_mass_bins(confidence, bins)
    gaps = [abs(float(correct[rows].mean()) - float(confidence[rows].mean())) * len(rows) for rows in parts]
    return sum(gaps) / len(y)


def equal_mass_bins(confidence: np.ndarray, bins: int = CALIBRATION_BINS) -> list[np.ndarray]:
    """Return row numbers in bins by confidence, the lowest first, with equally many rows, give or take one.

    Examples
    --------
    >>> equal_mass_bins(np.array([0.9, 0.5, 0.6]), bins=2)
    [array([1, 2]), array([0])]
    """
    return np.array_split(np.argsort(confidence, kind="stable"), min(bins, len(confidence)))


def domain_mean(scores: Iterable[float]) -> float:
    """Return the unweighted mean over domains (as in the paper)."""
    return float(np.mean(list(scores)))


def selection_score(metric: Metric, y: np.ndarray, predicted: np.ndarray, domains: np.ndarray) -> float:
    """Return the score of a model by a metric: the mean over domains, or the lowest accuracy of a domain.

    Examples
    --------
    >>> y, predicted, domains = np.array([0, 1, 1, 0]), np.array([0, 1, 0, 0]), np.array([0, 0, 1, 1])
    >>> [round(selection_score(metric, y, predicted, domains), 3) for metric in METRIC_NAMES]
    [0.75, 0.667, 0.5]
    """
    scores = by_domain(macro_f1 if metric == "macro-f1" else accuracy, y, predicted, domains)
    in_order = [scores[d] for d in sorted(scores)]
    return min(in_order) if metric == "worst-domain" else domain_mean(in_order)


def two_class_scores(score: np.ndarray) -> np.ndarray:
    """Return the scores of both classes, -s/2 and s/2, for scores `s` of the second, along a new last axis.

    Examples
    --------
    >>> two_class_scores(np.array([3.0, -1.0]))
    array([[-1.5,  1.5],
           [ 0.5, -0.5]])
    """
    return np.stack([-score, score], axis=-1) / 2
