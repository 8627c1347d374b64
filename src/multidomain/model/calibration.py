"""Temperatures of a trained model, fitted on the dev set."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_matrix

from multidomain.methods.base import Method
from multidomain.methods.calibration import calibrate_domains
from multidomain.model.prediction import predicted_logits

_ROWS = 20.0  # that uncalibrated logits count for: a few dev rows, all predicted correctly, prove nothing


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
    method.inverse_temperature.mul_(torch.tensor(scales).to(method.inverse_temperature))
