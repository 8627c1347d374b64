"""Distribution alignment: predictions with a given class prior."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logsumexp, softmax

LEAST = 1e-4  # share of a class: one that was in training is never ruled out
_SWEEPS = 100
_SHARP = 50.0  # standard deviation of logits that are as good as predictions
_ENOUGH = 50  # beyond this a probability is 0 or 1


def align_to_prior(logits: np.ndarray, shares: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    r"""Return logits whose mean probabilities equal a class prior, by adding one bias per class.

    .. math:: \frac1n \sum_i \mathrm{softmax}(z_i + b)_c = \pi_c \quad \text{for all } c

    solved for one class after the other until it holds for all. A class of prior 0 is never predicted. With weights of
    the rows the means are weighted ones.

    References
    ----------
    D. Berthelot et al. ReMixMatch: Semi-Supervised Learning with Distribution Matching and Augmentation Anchoring.
    ICLR 2020 (distribution alignment).
    """
    matched = np.where(shares > 0, logits, -np.inf)
    wanted = np.flatnonzero(shares)
    for _ in range(_SWEEPS if len(wanted) > 1 else 0):
        for c in map(int, wanted):
            matched[:, c] += bias_for_share(class_odds(matched, c), shares[c], weight)
        if np.abs(np.average(softmax(matched, axis=1), axis=0, weights=weight) - shares).max() < 1e-6:
            break
    return matched


def prior_bias(logits: np.ndarray, shares: np.ndarray, certainty: float) -> np.ndarray:
    """Return the biases of the classes that align logits to a class prior, in proportion to its certainty."""
    added = (align_to_prior(logits, shares) - logits)[0]
    return certainty * (added - added.mean())


def align_predictions(logits: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return logits of which each class is the most probable one for a given share of the rows, up to ties.

    As `align_to_prior`, of logits so large that probabilities are close to 0 or 1. A class of share 0 is lowered until
    none of these rows has it, and never raised.
    """
    sharpness = _SHARP / max(float(logits.std(axis=0).mean()), 1e-9)
    wanted = shares.clip(LEAST)
    added = (align_to_prior(sharpness * logits, wanted / wanted.sum()) / sharpness - logits)[0]
    added -= added[shares > 0].mean()
    return logits + np.where(shares > 0, added, added.clip(max=0))


def predicted_shares(logits: np.ndarray, d: np.ndarray) -> dict[int, np.ndarray]:
    """Return the share of the rows of each domain for which each class is the most probable one."""
    best = np.eye(logits.shape[1])[logits.argmax(axis=1)]
    return {int(domain): best[d == domain].mean(axis=0) for domain in np.unique(d)}


def class_odds(logits: np.ndarray, c: int) -> np.ndarray:
    """Return the log-odds of a class against all others, row by row."""
    return logits[:, c] - logsumexp(np.delete(logits, c, axis=1), axis=1)


def bias_for_share(odds: np.ndarray, share: float, weight: np.ndarray | None = None) -> float:
    """Return what has to be added to log-odds for their mean probability to equal a share above 0."""
    return brentq(_excess, -odds.max() - _ENOUGH, -odds.min() + _ENOUGH, args=(odds, share, weight))


def _excess(shift: float, odds: np.ndarray, share: float, weight: np.ndarray | None) -> float:
    return float(np.average(expit(odds + shift), weights=weight) - share)
