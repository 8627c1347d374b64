"""Predictions of a method on encoded rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from multidomain.methods.base import Method
from multidomain.methods.data import Examples
from multidomain.nn.sparse import SparseBatch, SparseMatrix

_ROWS_AT_A_TIME = 1024  # bounds the memory of hidden layers


def predicted_probabilities(method: Method, x: SparseMatrix, d: np.ndarray) -> np.ndarray:
    """Return class probabilities, shape (rows, classes).

    Parameters
    ----------
    d
        Domain code of each row, masked (`numpy.ma`) where the domain was not in training.
    """
    method.eval()
    codes = np.ma.asarray(d)
    probabilities = np.zeros((len(x), method.task.n_classes), dtype=np.float32)
    unseen = np.ma.getmaskarray(codes)
    groups: list[tuple[int | None, np.ndarray]] = [(None, np.flatnonzero(unseen))]
    groups += [(int(c), np.flatnonzero((codes.data == c) & ~unseen)) for c in np.unique(codes.data[~unseen])]
    with torch.inference_mode():
        for code, rows in groups:
            for start in range(0, len(rows), _ROWS_AT_A_TIME):
                chunk = rows[start : start + _ROWS_AT_A_TIME]
                logits = method.logits(x.take(chunk), code)
                probabilities[chunk] = torch.softmax(logits, dim=-1).cpu().numpy()
    return probabilities


def accuracy_by_domain(method: Method, examples: Examples, domains: tuple[str, ...]) -> dict[str, float]:
    """Return the accuracy in each domain that has rows."""
    predicted = predicted_probabilities(method, examples.x, examples.d).argmax(axis=1)
    correct = predicted == examples.y
    return {domains[d]: float(correct[examples.d == d].mean()) for d in np.unique(examples.d)}


def features_in_parts(
    method: Method, x: SparseMatrix, features: Callable[[SparseBatch], Tensor | None]
) -> np.ndarray | None:
    """Return some features of all rows, shape (rows, size); None if the method has none."""
    method.eval()
    pieces = []
    with torch.inference_mode():
        for start in range(0, len(x), _ROWS_AT_A_TIME):
            piece = features(x.take(np.arange(start, min(start + _ROWS_AT_A_TIME, len(x)))))
            if piece is None:
                return None
            pieces.append(piece.cpu().numpy())
    return np.concatenate(pieces) if pieces else None
