"""Class priors by expectation maximisation on calibrated probabilities."""

from __future__ import annotations

import numpy as np

_STEPS = 1000
_ENOUGH = 1e-7
LEAST = 1e-4  # a class that was in training is never ruled out


def em_prior(probabilities: np.ndarray, prior: np.ndarray) -> np.ndarray:
    r"""Return the class prior that maximises the likelihood of rows whose class-conditional distributions are known.

    With probabilities :math:`p_{ic}` that are calibrated under the prior :math:`\rho`, iterate

    .. math:: q_{ic} \propto \frac{\pi_c}{\rho_c} p_{ic}, \qquad \pi_c = \frac1n \sum_i q_{ic}

    Parameters
    ----------
    probabilities
        Shape (rows, classes).
    prior
        The prior that they were calibrated under.

    References
    ----------
    M. Saerens, P. Latinne and C. Decaestecker. Adjusting the Outputs of a Classifier to New a Priori Probabilities.
    Neural Computation, 2002. That the probabilities must be calibrated, class by class: A. Alexandari, A. Kundaje and
    A. Shrikumar. Maximum Likelihood with Bias-Corrected Calibration is Hard-to-Beat at Label Shift Adaptation. ICML
    2020.

    Examples
    --------
    >>> sure = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> em_prior(sure, np.array([0.5, 0.5])).round(2)
    array([0.75, 0.25])
    """
    ratio = probabilities / prior
    found = prior
    for _ in range(_STEPS):
        joint = ratio * found
        updated = (joint / joint.sum(axis=1, keepdims=True)).mean(axis=0)
        if np.abs(updated - found).max() < _ENOUGH:
            break
        found = updated
    found = found.clip(LEAST)
    return found / found.sum()
