"""Predictions of a method on encoded rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.sparse import csr_matrix
from scipy.special import softmax
from torch import Tensor

from multidomain.methods.base import Method
from multidomain.nn.sparse import SparseBatch, SparseMatrix

_CHUNK = 1024  # rows; bounds the memory for hidden layers


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
    method.eval()
    rows_of = SparseMatrix(x, device_of(method))
    codes = np.ma.asarray(d)
    predicted = np.zeros((len(rows_of), method.task.n_classes), dtype=np.float32)
    unseen = np.ma.getmaskarray(codes)
    groups: list[tuple[int | None, np.ndarray]] = [(None, np.flatnonzero(unseen))]
    groups += [(int(c), np.flatnonzero((codes.data == c) & ~unseen)) for c in np.unique(codes.data[~unseen])]
    with torch.inference_mode():
        for code, rows in groups:
            for start in range(0, len(rows), _CHUNK):
                chunk = rows[start : start + _CHUNK]
                predicted[chunk] = method.calibrated_logits(rows_of.take(chunk), code).cpu().numpy()
    return predicted


def features_in_chunks(
    method: Method, x: csr_matrix, features: Callable[[SparseBatch], Tensor | None]
) -> np.ndarray | None:
    """Return shared or private features of all rows, shape (rows, size); None if there are none."""
    method.eval()
    rows_of = SparseMatrix(x, device_of(method))
    chunks = []
    with torch.inference_mode():
        for start in range(0, len(rows_of), _CHUNK):
            chunk = features(rows_of.take(np.arange(start, min(start + _CHUNK, len(rows_of)))))
            if chunk is None:
                return None
            chunks.append(chunk.cpu().numpy())
    return np.concatenate(chunks) if chunks else None


def device_of(method: Method) -> torch.device:
    """Return the device a method runs on."""
    return next(method.parameters()).device
