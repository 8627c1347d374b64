"""Calibration: scores to probabilities by temperature scaling, with a bias for each class or without."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, softmax

from multidomain.methods.data import Examples

NEVER = -1e3  # score of a class without rows
_COMMON_ROWS = 20.0  # rows of a domain that the common temperature is worth


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


@dataclass(frozen=True, eq=False)
class Calibration:
    """An inverse temperature and a bias for each class."""

    scale: float
    bias: np.ndarray

    def logits(self, scores: np.ndarray) -> np.ndarray:
        """Return calibrated log-probabilities, up to a constant of each row."""
        return self.scale * scores + self.bias

    def moved(self, bias: np.ndarray) -> Calibration:
        """Return the same calibration with something added to the biases."""
        return Calibration(self.scale, self.bias + bias)


def calibrate(
    scores: np.ndarray,
    y: np.ndarray,
    *,
    with_bias: bool = True,
    towards: Calibration | None = None,
    strength: float = 1e-3,
) -> Calibration:
    r"""Return the scale and biases that maximise the likelihood of the labels (bias-corrected temperature scaling).

    .. math::
        \min_{a, b} -\sum_i \log \mathrm{softmax}(a s_i + b)_{y_i}
        + \tfrac{\kappa}{2} \left( \log^2 (a / a_0) + \|b - b_0\|^2 \right)

    Parameters
    ----------
    scores
        Shape (rows, classes). Rows of a class that is never predicted are ignored.
    with_bias
        Whether the biases, too, may differ from :math:`b_0`; only they can change which class is most probable.
    towards, strength
        :math:`(a_0, b_0)`, by default 1 and 0, and :math:`\kappa`, which counts as so many rows.

    References
    ----------
    A. Alexandari, A. Kundaje and A. Shrikumar. Maximum Likelihood with Bias-Corrected Calibration is Hard-to-Beat at
    Label Shift Adaptation. ICML 2020.
    """
    start = Calibration(1.0, np.zeros(scores.shape[1])) if towards is None else towards
    possible = scores[np.arange(len(y)), y] > NEVER / 2
    scores, y = scores[possible], y[possible]
    if not len(y):
        return start
    wanted = np.eye(scores.shape[1])[y]
    centre = np.r_[np.log(start.scale), start.bias]

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        scale = np.exp(values[0])
        logits = scale * scores + values[1:]
        off = softmax(logits, axis=1) - wanted
        away = values - centre
        value = -(log_softmax(logits, axis=1) * wanted).sum() + 0.5 * strength * away @ away
        gradient = np.r_[scale * (off * scores).sum(), off.sum(axis=0)] + strength * away
        return value, gradient

    of_bias = [(None, None) if with_bias else (b, b) for b in start.bias]
    found = minimize(loss, centre, jac=True, method="L-BFGS-B", bounds=[(-7, 7), *of_bias]).x
    return Calibration(float(np.exp(found[0])), found[1:] - found[1:].mean())


def calibrate_domains(
    scores: np.ndarray, y: np.ndarray, d: np.ndarray, *, strength: float, with_bias: bool = False
) -> tuple[Calibration, dict[int, Calibration]]:
    """Return a common temperature, and one for each domain, which few rows draw towards the common one.

    Parameters
    ----------
    strength, with_bias
        As for `calibrate`, of the common one: how many rows uncalibrated scores count for, and whether it has biases.
    """
    common = calibrate(scores, y, with_bias=with_bias, strength=strength)
    of_domain = {
        int(code): calibrate(scores[d == code], y[d == code], with_bias=False, towards=common, strength=_COMMON_ROWS)
        for code in np.unique(d)
    }
    return common, of_domain
