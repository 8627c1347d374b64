"""Support vector machines with shared and private weights, on sparse and dense features at once."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from multidomain.kernels.compiled import compiled


def solve_two_views(
    sparse: csr_matrix,
    dense: np.ndarray,
    d: np.ndarray,
    y: np.ndarray,
    cost: np.ndarray,
    n_domains: int,
    private: float,
    *,
    tolerance: float = 0.01,
    max_passes: int = 200,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Minimise, with :math:`\phi` the two views side by side and a constant 1,

    .. math::
        \tfrac12 \|w\|^2 + \tfrac{1}{2\mu} \sum_d \|v_d\|^2
        + \sum_i c_i \max(0, 1 - y_i \, \phi_i \cdot (w + v_{d_i}))^2

    by coordinate descent in the dual (Hsieh et al. 2008), to a largest projected gradient below `tolerance` or, where
    the loss weighs so much that this takes long, for `max_passes`. The copies that feature augmentation would make of
    each row are never made.

    Returns the weights of both views and of the constant, shapes (1 + domains, columns), (1 + domains, size) and
    (1 + domains,), shared ones first, then the private parts.

    Parameters
    ----------
    sparse, dense, d
        The views, and the domain of each row.
    y
        1 or -1.
    cost
        The weights c of the rows, above 0.
    private
        mu: variance of private relative to shared weights, 0 for none.
    """
    x = csr_matrix(sparse)
    w = np.zeros((1 + n_domains, x.shape[1]), dtype=np.float32)
    u = np.zeros((1 + n_domains, dense.shape[1]), dtype=np.float32)
    bias, alpha = np.zeros(1 + n_domains), np.zeros(len(y))
    squares = np.asarray(x.multiply(x).sum(axis=1)).ravel() + (dense**2).sum(axis=1)
    diagonal = (squares + 1) * (1 + private) + 0.5 / cost
    parts = (x.indptr, x.indices, x.data, dense, d, y.astype(np.float64), 0.5 / cost, diagonal)
    rng = np.random.default_rng(0)
    for _ in range(max_passes):
        worst = _one_pass(rng.permutation(len(y)), *parts, private, alpha, w, u, bias)
        if worst < tolerance:
            break
    return w, u, bias


@compiled
def _one_pass(order, indptr, indices, data, dense, d, y, ridge, diagonal, private, alpha, w, u, bias):  # type: ignore[no-untyped-def]
    worst = 0.0
    for i in order:
        own = 1 + d[i]
        score = bias[0] + bias[own]
        for at in range(indptr[i], indptr[i + 1]):
            j = indices[at]
            score += data[at] * (w[0, j] + w[own, j])
        for j in range(dense.shape[1]):
            score += dense[i, j] * (u[0, j] + u[own, j])
        gradient = y[i] * score - 1 + alpha[i] * ridge[i]
        projected = min(gradient, 0.0) if alpha[i] == 0 else gradient
        worst = max(worst, abs(projected))
        if projected == 0:
            continue
        before = alpha[i]
        alpha[i] = max(before - gradient / diagonal[i], 0.0)
        step = (alpha[i] - before) * y[i]
        bias[0] += step
        bias[own] += private * step
        for at in range(indptr[i], indptr[i + 1]):
            j = indices[at]
            w[0, j] += step * data[at]
            w[own, j] += private * step * data[at]
        for j in range(dense.shape[1]):
            u[0, j] += step * dense[i, j]
            u[own, j] += private * step * dense[i, j]
    return worst
