"""Rows of sparse matrices that need not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.sparse import csr_matrix

from multidomain import arrays

_VALUES_AT_A_TIME = 1 << 24


def selected(x: csr_matrix, rows: np.ndarray) -> csr_matrix:
    """Return rows by a mask or numbers; those that follow each other are not copied, and a large copy is on disk."""
    if rows.dtype == bool:
        rows = np.flatnonzero(rows)
    starts = x.indptr[rows].astype(np.int64)
    lengths = x.indptr[1:][rows] - starts
    indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    values, columns = (arrays.take_ranges(part, starts, lengths) for part in (x.data, x.indices))
    return _matrix(values, columns, indptr, x)


def stacked(matrices: Sequence[csr_matrix]) -> csr_matrix:
    """Return the rows of matrices, one after another; a large result is on disk."""
    first, *others = matrices
    values, columns = (arrays.joined([getattr(x, part) for x in matrices]) for part in ("data", "indices"))
    indptr = first.indptr.astype(np.int64)
    for x in others:
        indptr = np.concatenate([indptr, indptr[-1] + x.indptr[1:]])
    return _matrix(values, columns, indptr, first)


def with_values(x: csr_matrix, values: np.ndarray) -> csr_matrix:
    """Return rows with other values in the same places."""
    return _matrix(values, x.indices, x.indptr, x)


def row_blocks(x: csr_matrix, most: int | None = None) -> Iterator[tuple[slice, csr_matrix]]:
    """Yield all rows in blocks, with their numbers; what is computed from a block fits into memory."""
    n = x.shape[0]
    size = n if x.nnz <= _VALUES_AT_A_TIME else max(1, n * _VALUES_AT_A_TIME // x.nnz)
    size = size if most is None else min(size, most)
    for rows in arrays.blocks(n, max(1, size)):
        start, end = x.indptr[rows.start], x.indptr[rows.stop]
        indptr = x.indptr[rows.start : rows.stop + 1] - start
        yield rows, x if size == n else _matrix(x.data[start:end], x.indices[start:end], indptr, x)


def row_squares(x: csr_matrix) -> np.ndarray:
    """Return the sum of the squares of each row."""
    squares = np.empty(x.shape[0], dtype=x.dtype)
    for rows, block in row_blocks(x):
        squares[rows] = np.asarray(block.multiply(block).sum(axis=1)).ravel()
    return squares


def _matrix(values: np.ndarray, columns: np.ndarray, indptr: np.ndarray, like: csr_matrix) -> csr_matrix:
    matrix = csr_matrix((len(indptr) - 1, like.shape[1]), dtype=values.dtype)
    # Set one by one: given together, arrays that are a small part of others would be copied.
    matrix.data, matrix.indices, matrix.indptr = values, columns, indptr.astype(columns.dtype)
    matrix.has_sorted_indices = like.has_sorted_indices  # or it would be checked, value by value
    return matrix
