"""Choosing values on development rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from multidomain.methods.base import Tried
from multidomain.methods.data import Examples

Fitted = TypeVar("Fitted")

HOPELESS = 0.02  # below the best accuracy so far, or two standard errors if that is more
PATIENCE = 4  # candidates in a row


def fit_best(
    candidates: Sequence[Mapping[str, Any]],
    fit: Callable[[Mapping[str, Any]], Fitted],
    accuracy: Callable[[Fitted], float],
    tried: Tried,
    *,
    n_dev: int,
) -> tuple[Fitted, dict[str, Any]]:
    """Return what the best candidate gives, and the candidate; among equals the earlier one.

    Candidates come with the strongest regularisation first. Once four in a row are far below the best, the rest would
    only overfit more, and take longest: they are left out. Without development rows (`n_dev` is 0) the candidate in the
    middle is taken, and no other is fitted.
    """
    if not n_dev:
        middle = candidates[len(candidates) // 2]
        tried(middle, None)
        return fit(middle), dict(middle)
    best: tuple[float, Fitted, Mapping[str, Any]] | None = None
    hopeless = 0
    for candidate in candidates:
        fitted = fit(candidate)
        reached = accuracy(fitted)
        tried(candidate, reached)
        if best is None or reached > best[0]:
            best = (reached, fitted, candidate)
        margin = max(HOPELESS, 2 * (best[0] * (1 - best[0]) / n_dev) ** 0.5)
        hopeless = hopeless + 1 if reached < best[0] - margin else 0
        if hopeless == PATIENCE:
            break
    assert best is not None
    return best[1], dict(best[2])


def fit_first_good(
    candidates: Sequence[Mapping[str, Any]],
    fit: Callable[[Mapping[str, Any]], Fitted],
    accuracy: Callable[[Fitted], float],
    tried: Tried,
    *,
    n_dev: int,
) -> tuple[Fitted, dict[str, Any]]:
    """Return what the first candidate gives that is within one standard error of the best, and the candidate.

    Candidates come in the order in which they are preferred. On few development rows the best is so by chance; this
    rule (Breiman et al. 1984) departs from what is preferred only for good reason. Without development rows the first
    is taken.
    """
    if not n_dev:
        tried(candidates[0], None)
        return fit(candidates[0]), dict(candidates[0])
    reached = []
    for candidate in candidates:
        reached.append(accuracy(fit(candidate)))
        tried(candidate, reached[-1])
    best = max(reached)
    good_enough = best - (best * (1 - best) / n_dev) ** 0.5
    chosen = next(candidate for candidate, value in zip(candidates, reached, strict=True) if value >= good_enough)
    return fit(chosen), dict(chosen)  # again: to keep them all would be a copy of the weights for each


def mean_accuracy(scores: np.ndarray, dev: Examples) -> float:
    """Return the mean over domains of the accuracy of class scores."""
    correct = scores.argmax(axis=1) == dev.y
    return float(np.mean([correct[dev.d == d].mean() for d in np.unique(dev.d)]))
