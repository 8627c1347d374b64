"""Log-count ratios: how strongly a feature indicates a class, and rows weighted by it."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from multidomain import arrays
from multidomain.features.sparse_rows import row_blocks, row_squares, with_values
from multidomain.methods.data import Examples


def class_evidence(rows: Examples, n_classes: int, smoothing: float = 1.0) -> np.ndarray:
    r"""Return the largest absolute log-count ratio of each column over the classes, shape (columns,).

    .. math::
        r_j = \max_c \left| \log \frac{p_{jc} / \sum_i p_{ic}}{q_{jc} / \sum_i q_{ic}} \right|, \qquad
        p_{jc} = 2 \alpha \pi_c + \sum_{i : y_i = c} \omega_i [x_{ij} \ne 0], \quad
        q_{jc} = 2 \alpha (1 - \pi_c) + \sum_{i : y_i \ne c} \omega_i [x_{ij} \ne 0]

    where :math:`\pi_c` is the share of all values that are not 0 which class `c` has: a column that occurs in no
    labelled row has the ratio 0, whatever the class prior. Without rows of two classes all ratios are 0.

    References
    ----------
    S. Wang and C. D. Manning. Baselines and Bigrams: Simple, Good Sentiment and Topic Classification. ACL 2012.
    """
    assert rows.y is not None
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    in_class = (rows.y[:, None] == np.arange(n_classes)) * weight[:, None]  # (rows, classes)
    p, q = np.zeros((2, rows.x.shape[1], n_classes))
    for here, block in row_blocks(rows.x):
        present = (block != 0).astype(np.float64)
        p += present.T @ in_class[here]
        q += present.T @ (weight[here, None] - in_class[here])
    comparable = p.any(axis=0) & q.any(axis=0)
    p, q = p[:, comparable], q[:, comparable]
    share = p.sum(axis=0) / (p + q).sum(axis=0)
    p += 2 * smoothing * share
    q += 2 * smoothing * (1 - share)
    ratio = np.log(p / p.sum(axis=0)) - np.log(q / q.sum(axis=0))
    return np.abs(ratio).max(axis=1, initial=0)


def weighted_rows(x: csr_matrix, scale: np.ndarray) -> csr_matrix:
    """Return rows whose columns are multiplied by `scale`, each row then scaled to unit length."""
    values = arrays.empty(x.nnz, x.dtype)
    for rows, block in row_blocks(x):
        value = block.data * scale[block.indices].astype(x.dtype)
        length = np.sqrt(row_squares(with_values(block, value))).clip(1e-12)
        here = slice(x.indptr[rows.start], x.indptr[rows.stop])
        values[here] = value / np.repeat(length, np.diff(block.indptr)).astype(x.dtype)
    return with_values(x, values)
