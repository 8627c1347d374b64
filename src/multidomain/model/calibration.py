"""Calibration of a trained model: temperatures, fitted on the dev set, and the class priors of its domains."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.sparse import csr_matrix

from multidomain.methods.base import Method
from multidomain.methods.calibration import calibrate_domains
from multidomain.methods.priors.alignment import prior_bias
from multidomain.model.prediction import predicted_logits

_ROWS = 20.0  # that uncalibrated logits count for: a few dev rows, all predicted correctly, prove nothing


def align_to_priors(
    method: Method, x: csr_matrix, d: np.ndarray, priors: Mapping[int, np.ndarray], certainty: Mapping[int, float]
) -> None:
    """Align the calibrated logits of some domains to their class priors, as far as these are certain.

    Parameters
    ----------
    x, d
        Text of these domains, and its domain codes.
    priors, certainty
        By domain code: share of each class, and from 0 to 1 how certain it is.
    """
    for code, prior in priors.items():
        logits = predicted_logits(method, x[d == code], d[d == code]).astype(np.float64)
        bias = prior_bias(logits, prior, certainty[code])
        method.class_bias[1 + code] += bias


def set_temperatures(method: Method, x: csr_matrix, y: np.ndarray, d: np.ndarray) -> None:
    """Fit a temperature for each domain that has dev rows, and a common one for the others.

    No prediction changes, only how confident it is.

    Parameters
    ----------
    x, y, d
        Dev rows, their class and domain codes.
    """
    if not len(y):
        return
    logits = predicted_logits(method, x, d).astype(np.float64)
    common, of_domain = calibrate_domains(logits, y, d, strength=_ROWS)
    scales = [common.scale] + [of_domain.get(code, common).scale for code in range(len(method.task.domains))]
    method.inverse_temperature *= np.array(scales, dtype=np.float32)
