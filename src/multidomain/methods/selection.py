"""Model selection on the dev set."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from multidomain.errors import TrainingError
from multidomain.methods.base import FitContext
from multidomain.methods.data import Examples
from multidomain.metrics import Metric, selection_score

Fitted = TypeVar("Fitted")

HOPELESS = 0.02  # below the best score so far, or two standard errors if larger
PATIENCE = 4  # candidates in a row
NEVER_CHOSEN = -math.inf  # score of predictions that are not finite


def fit_best(
    candidates: Sequence[Mapping[str, Any]],
    fit: Callable[[Mapping[str, Any]], Fitted],
    score: Callable[[Fitted], float],
    context: FitContext,
    *,
    n_dev: int,
) -> tuple[Fitted, dict[str, Any]]:
    """Return the fit of the best candidate, and the candidate; ties go to the earlier one.

    Candidates are ordered by regularisation, the strongest first. Once four in a row are far below the best, the rest
    are skipped: they would only overfit more, and take longest. Without a dev set (`n_dev` is 0) only the middle
    candidate is fitted. `n_dev` is the number of rows that a score rests on (see `dev_rows`).
    """
    if not n_dev:
        middle = candidates[len(candidates) // 2]
        context.report(middle, None)
        return fit(middle), dict(middle)
    best: tuple[float, Fitted, Mapping[str, Any]] | None = None
    hopeless = 0
    for candidate in candidates:
        fitted = fit(candidate)
        reached = score(fitted)
        context.report(candidate, reached)
        if reached == NEVER_CHOSEN:
            continue
        if best is None or reached > best[0]:
            best = (reached, fitted, candidate)
        margin = max(HOPELESS, 2 * (best[0] * (1 - best[0]) / n_dev) ** 0.5)
        hopeless = hopeless + 1 if reached < best[0] - margin else 0
        if hopeless == PATIENCE:
            break
    if best is None:
        raise _nothing_finite()
    return best[1], dict(best[2])


def fit_first_good(
    candidates: Sequence[Mapping[str, Any]],
    fit: Callable[[Mapping[str, Any]], Fitted],
    score: Callable[[Fitted], float],
    context: FitContext,
    *,
    n_dev: int,
) -> tuple[Fitted, dict[str, Any]]:
    """Return the fit of the first candidate within one standard error of the best, and the candidate.

    Candidates are in order of preference. On a small dev set the best is often best by chance; this one-standard-error
    rule (Breiman et al. 1984) overrides the preference only by a clear margin. Without a dev set the first is used.
    """
    if not n_dev:
        context.report(candidates[0], None)
        return fit(candidates[0]), dict(candidates[0])
    reached = []
    for candidate in candidates:
        reached.append(score(fit(candidate)))
        context.report(candidate, reached[-1])
    best = max(reached)
    if best == NEVER_CHOSEN:
        raise _nothing_finite()
    good_enough = best - (best * (1 - best) / n_dev) ** 0.5
    chosen = next(candidate for candidate, value in zip(candidates, reached, strict=True) if value >= good_enough)
    return fit(chosen), dict(chosen)  # refitted: keeping every fit would mean a copy of the weights per candidate


def dev_score(scores: np.ndarray, dev: Examples, metric: Metric) -> float:
    """Return the score of predictions on the dev set, given class scores of shape (rows, classes).

    It is `NEVER_CHOSEN` if one of them is not finite.
    """
    assert dev.y is not None
    if not np.isfinite(scores).all():
        return NEVER_CHOSEN
    return selection_score(metric, dev.y, scores.argmax(axis=1), dev.d)


def dev_rows(dev: Examples, metric: Metric) -> int:
    """Return how many rows a dev score rests on: all, or those of the smallest domain if one domain decides."""
    if metric == "worst-domain" and len(dev):
        return int(np.unique(dev.d, return_counts=True)[1].min())
    return len(dev)


def _nothing_finite() -> TrainingError:
    return TrainingError(
        "The solver has diverged: predictions on the dev set are not finite, whatever the hyperparameters.",
        "Look for very large or very small values among features and settings.",
    )
