"""Support vector machines with shared and private weights, on sparse and dense features at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from multidomain import arrays
from multidomain.features.sparse_rows import row_squares
from multidomain.kernels.compiled import compiled
from multidomain.stages import stage

_DENSE_ROWS = 1 << 13


@dataclass(frozen=True, eq=False)
class DomainColumns:
    """The columns that occur in the rows of each domain: those that have private weights.

    Attributes
    ----------
    columns, starts
        Columns of domain `d`: ``columns[starts[d]:starts[d + 1]]``, in the order of first occurrence.
    place
        Of each value of the rows, the place of its domain and column in `columns`.
    """

    columns: np.ndarray
    starts: np.ndarray
    place: np.ndarray


def domain_columns(x: csr_matrix, d: np.ndarray, n_domains: int) -> DomainColumns:
    """Return the columns that occur in the rows of each domain, in one pass over the values."""
    kind = np.int32 if x.nnz < 2**31 else np.int64
    columns, place = np.empty(x.nnz, dtype=x.indices.dtype), arrays.empty(x.nnz, kind)
    size = np.zeros(n_domains, dtype=np.int64)
    _number(np.argsort(d, kind="stable"), x.indptr, x.indices, d, x.shape[1], columns, size, place)
    return DomainColumns(columns[: size.sum()].copy(), np.r_[0, np.cumsum(size)], place)


@compiled
def _number(order, indptr, indices, d, n_columns, columns, size, place):  # type: ignore[no-untyped-def]
    seen_in, number, count = np.full(n_columns, -1), np.empty(n_columns, np.int64), 0
    for i in order:
        for at in range(indptr[i], indptr[i + 1]):
            j = indices[at]
            if seen_in[j] != d[i]:
                seen_in[j], number[j], columns[count] = d[i], count, j
                size[d[i]] += 1
                count += 1
            place[at] = number[j]


@dataclass(frozen=True, eq=False)
class Solution:
    """Weights of rows, and the dual variables that they are made of.

    Attributes
    ----------
    shared, private
        Weights of the sparse view: shared ones, and private ones in the order of `DomainColumns`.
    dense, bias
        Weights of the dense view and of the constant, shapes (1 + domains, size) and (1 + domains,): shared ones first,
        then the private parts.
    alpha
        Dual variable of each row, 0 or more.
    """

    shared: np.ndarray
    private: np.ndarray
    dense: np.ndarray
    bias: np.ndarray
    alpha: np.ndarray


def solve_two_views(
    sparse: csr_matrix,
    dense: np.ndarray,
    d: np.ndarray,
    y: np.ndarray,
    cost: np.ndarray,
    own: DomainColumns,
    private: float,
    *,
    length: float = 1.0,
    start: np.ndarray | None = None,
    tolerance: float = 0.01,
    max_passes: int = 200,
) -> Solution:
    r"""Minimise, with :math:`\phi` the two views side by side, the dense one multiplied by `length`, and a constant 1,

    .. math::
        \tfrac12 \|w\|^2 + \tfrac{1}{2\mu} \sum_d \|v_d\|^2
        + \sum_i c_i \max(0, 1 - y_i \, \phi_i \cdot (w + v_{d_i}))^2

    by coordinate descent in the dual (Hsieh et al. 2008), to a largest projected gradient below `tolerance` or, where
    the loss weighs so much that this takes long, for `max_passes`. The copies that feature augmentation would make of
    each row are never made.

    Parameters
    ----------
    sparse, dense, d
        The views, and the domain of each row.
    y
        1 or -1.
    cost
        The weights c of the rows, above 0.
    own
        `domain_columns` of the rows.
    private
        mu: variance of private relative to shared weights, 0 for none.
    length
        Factor of the dense view, which would take much memory multiplied.
    start
        Dual variables to start from, such as those of a similar problem; None for 0.
    """
    copies = len(own.starts)
    w, v = np.zeros(sparse.shape[1], dtype=np.float32), np.zeros(len(own.columns), dtype=np.float32)
    u = np.zeros((copies, dense.shape[1]), dtype=np.float32)
    bias, alpha = np.zeros(copies), np.zeros(len(y))
    squares, factor = row_squares(sparse), np.float32(length)
    for rows in arrays.blocks(len(dense), _DENSE_ROWS):
        squares[rows] += ((dense[rows] * factor) ** 2).sum(axis=1)
    diagonal = (squares + 1) * (1 + private) + 0.5 / cost
    y, ridge = y.astype(np.float64), 0.5 / cost
    parts = (sparse.indptr, sparse.indices, own.place, sparse.data, dense, factor, d, y)
    weights = (w, v, u, bias)
    if start is not None and start.any():
        alpha[:] = start
        _add_rows(alpha, *parts, private, *weights)
        scale = _best_scale(alpha, ridge, private, *weights)
        for array in (alpha, *weights):
            array *= scale
    rng = np.random.default_rng(0)
    for _ in stage("passes of the solver", range(max_passes), max_passes):
        worst = _one_pass(rng.permutation(len(y)), *parts, ridge, diagonal, private, alpha, *weights)
        if worst < tolerance:
            break
    return Solution(*weights, alpha)


def _best_scale(
    alpha: np.ndarray, ridge: np.ndarray, private: float, w: np.ndarray, v: np.ndarray, u: np.ndarray, bias: np.ndarray
) -> float:
    """Return the factor of all dual variables that brings the dual objective to its minimum.

    With a larger cost most of them grow, and those of rows beyond the margin do not: this is how far on the whole.
    """
    shared = sum(np.vdot(part, part) for part in (w, u[0], bias[0]))
    of_domains = sum(np.vdot(part, part) for part in (v, u[1:], bias[1:]))
    quadratic = float(shared) + (float(of_domains) / private if private else 0.0)
    return float(alpha.sum() / (quadratic + alpha @ (ridge * alpha)))


@compiled
def _add_rows(alpha, indptr, indices, place, data, dense, factor, d, y, private, w, v, u, bias):  # type: ignore[no-untyped-def]
    for i in range(len(alpha)):
        step, own = alpha[i] * y[i], 1 + d[i]
        if step == 0:
            continue
        bias[0] += step
        bias[own] += private * step
        for at in range(indptr[i], indptr[i + 1]):
            w[indices[at]] += step * data[at]
            v[place[at]] += private * step * data[at]
        for j in range(dense.shape[1]):
            value = dense[i, j] * factor
            u[0, j] += step * value
            u[own, j] += private * step * value


@compiled
def _one_pass(order, indptr, indices, place, data, dense, factor, d, y, ridge, diagonal, private, alpha, w, v, u, bias):  # type: ignore[no-untyped-def]
    worst = 0.0
    for i in order:
        own = 1 + d[i]
        score = bias[0] + bias[own]
        for at in range(indptr[i], indptr[i + 1]):
            score += data[at] * (w[indices[at]] + v[place[at]])
        for j in range(dense.shape[1]):
            score += dense[i, j] * factor * (u[0, j] + u[own, j])
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
            w[indices[at]] += step * data[at]
            v[place[at]] += private * step * data[at]
        for j in range(dense.shape[1]):
            value = dense[i, j] * factor
            u[0, j] += step * value
            u[own, j] += private * step * value
    return worst
