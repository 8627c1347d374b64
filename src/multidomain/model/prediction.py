"""Predictions of a method on encoded rows."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import softmax

from multidomain.arrays import blocks
from multidomain.features.sparse_rows import selected
from multidomain.methods.base import Method

_ROWS_AT_A_TIME = 1 << 18


def predicted_probabilities(method: Method, x: csr_matrix, d: np.ndarray) -> np.ndarray:
    """Return class probabilities, shape (rows, classes).

    Parameters
    ----------
    d
        Domain code of each row, masked (`numpy.ma`) where the domain was not in training.
    """
    return softmax(predicted_logits(method, x, d), axis=1)


def predicted_logits(method: Method, x: csr_matrix, d: np.ndarray) -> np.ndarray:
    """Return calibrated logits, shape (rows, classes); see `predicted_probabilities`."""
    codes = np.ma.asarray(d)
    predicted = np.zeros((x.shape[0], method.task.n_classes), dtype=np.float32)
    unseen = np.ma.getmaskarray(codes)
    groups: list[tuple[int | None, np.ndarray]] = [(None, np.flatnonzero(unseen))]
    groups += [(int(c), np.flatnonzero((codes.data == c) & ~unseen)) for c in np.unique(codes.data[~unseen])]
    for code, rows in groups:
        for some in blocks(len(rows), _ROWS_AT_A_TIME):
            predicted[rows[some]] = method.calibrated_logits(selected(x, rows[some]), code)
    return predicted
