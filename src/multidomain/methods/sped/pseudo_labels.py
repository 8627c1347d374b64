"""Predictions as labels."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

_MOST_BALANCE = 5.0  # largest factor that makes up for a class with few pseudo-labels


def pseudo_labels(logits: np.ndarray, d: np.ndarray, source_prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the most probable class of each row, and how much it counts.

    That is the margin to the second class, times a factor that gives the classes of each domain the shares that they
    have in the labelled rows.
    """
    p = softmax(logits, axis=1)
    answer = p.argmax(axis=1)
    second, first = np.sort(p, axis=1)[:, -2:].T
    weight = first - second
    for domain in np.unique(d):
        here = d == domain
        mass = np.bincount(answer[here], weight[here], minlength=len(source_prior))
        factor = source_prior * mass.sum() / mass.clip(1e-12)
        weight[here] *= factor.clip(0, _MOST_BALANCE)[answer[here]]
    return answer, weight
