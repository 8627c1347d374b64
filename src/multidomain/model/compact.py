"""Smaller models: n-grams and weights that hardly any prediction depends on are dropped (decision 31)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from multidomain.features.sparse_rows import row_blocks
from multidomain.methods.base import Method
from multidomain.model.model import Model
from multidomain.model.prediction import predicted_logits

_SHARES = (0.99, 0.97, 0.95, 0.9, 0.8, *(2 ** (-k / 2) for k in range(1, 25)))  # of the weights that may be kept
_FEW_ROWS = 20  # of a domain; with fewer its logits are scaled as those of all


def column_sizes(x: csr_matrix) -> np.ndarray:
    """Return the root mean square of each column."""
    squares = np.zeros(x.shape[1])
    for _, rows in row_blocks(x):
        squares += np.bincount(rows.indices, np.square(rows.data, dtype=np.float64), minlength=x.shape[1])
    return np.sqrt(squares / max(1, x.shape[0]))


def compact(model: Model, documents: Any, domains: Sequence[str | None], sizes: np.ndarray, tolerance: float) -> Model:
    """Return a model with fewer n-grams; the same model if none can be dropped.

    Weights are dropped in the order in which they move logits, as far as allowed. What is left of a row is scaled
    to length 1 again, and so the logits of each domain are then scaled and moved to those of the whole model.

    Parameters
    ----------
    documents, domains
        Dev rows, analysed or not.
    sizes
        The `column_sizes` of the training text.
    tolerance
        Largest share of the dev predictions that may change.
    """
    codes = model.resolve_domains(domains, len(domains)).codes
    rows = _Rows(model.method, model.encode(documents), codes)
    most = int(tolerance * len(domains))
    smallest, fewest, end = model, 0, len(_SHARES)  # by bisection: the fewer weights, the more predictions change
    while fewest < end:
        middle = (fewest + end) // 2
        method, columns = model.method.pruned(sizes, _SHARES[middle])
        narrow = Model(model.method_name, method, model.features.narrowed(columns), model.classes)
        differ = rows.follow(method, narrow.encode(documents), unseen=model.requirements.unseen_domains)
        if differ <= most:
            smallest, fewest = narrow, middle + 1
        else:
            end = middle
    return smallest


class _Rows:
    """Rows as the whole model reads and predicts them."""

    def __init__(self, whole: Method, x: csr_matrix, codes: np.ma.MaskedArray):
        self._whole, self._x, self._codes = whole, x, codes
        self._logits = predicted_logits(whole, x, codes)

    def follow(self, method: Method, x: csr_matrix, *, unseen: bool) -> int:
        """Fit the logits of a pruned method to those of the whole one; return how many predictions are others."""
        logits = predicted_logits(method, x, self._codes)
        n_copies = len(method.inverse_temperature)
        scale, bias = np.ones(n_copies), np.zeros((n_copies, logits.shape[1]))
        known = ~np.ma.getmaskarray(self._codes)
        scale[1:], bias[1:] = _fitted(logits[known], self._logits[known])
        for d in np.unique(self._codes.compressed()):
            here = known & (self._codes.data == d)
            if here.sum() >= _FEW_ROWS:
                scale[1 + d], bias[1 + d] = _fitted(logits[here], self._logits[here])
        if unseen:
            unknown = np.ma.masked_all(len(logits), dtype=np.int64)
            of_whole = predicted_logits(self._whole, self._x, unknown)
            scale[0], bias[0] = _fitted(predicted_logits(method, x, unknown), of_whole)
        method.inverse_temperature = (method.inverse_temperature * scale).astype(np.float32)
        method.class_bias = (method.class_bias * scale[:, None] + bias).astype(np.float32)
        predicted = predicted_logits(method, x, self._codes).argmax(axis=1)
        return int((predicted != self._logits.argmax(axis=1)).sum())


def _fitted(logits: np.ndarray, wanted: np.ndarray) -> tuple[float, np.ndarray]:
    """Return scale and biases with which logits come closest to others, by least squares."""
    x, y = (values - values.mean(axis=1, keepdims=True) for values in (logits.astype(np.float64), wanted))
    if not len(x):
        return 1.0, np.zeros(logits.shape[1])
    around = x - x.mean(axis=0)
    square = (around**2).sum()
    scale = float((around * y).sum() / square) if square else 1.0
    if scale <= 0:  # as good as unrelated
        scale = 1.0
    return scale, y.mean(axis=0) - scale * x.mean(axis=0)
