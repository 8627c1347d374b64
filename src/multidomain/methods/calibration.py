"""Calibration: scores to probabilities by temperature scaling."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from multidomain.methods.data import Examples

NEVER = -1e3  # score of a class without rows


def best_scale(scores: np.ndarray, dev: Examples) -> float:
    """Return the inverse temperature: the factor of the scores that maximises the likelihood of the labels.

    Rows of a class that is never predicted are ignored. Without rows it is 1.
    """
    if not len(dev):
        return 1.0
    assert dev.y is not None
    of_label = scores[np.arange(len(dev)), dev.y]
    scores, y = scores[of_label > NEVER / 2], dev.y[of_label > NEVER / 2]
    if not len(y):
        return 1.0

    def loss(log_scale: float) -> float:
        return -log_softmax(np.exp(log_scale) * scores, axis=1)[np.arange(len(y)), y].mean()

    return float(np.exp(minimize_scalar(loss, bounds=(-7, 7), method="bounded").x))
