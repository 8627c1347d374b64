"""Rows of a sparse matrix, for the mini-batches of training. The plain form is `SparseMatrix.take`."""

from __future__ import annotations

import numpy as np
import torch

from multidomain.kernels.compiled import compiled
from multidomain.nn.sparse import SparseBatch


def take_rows(matrix: SparseBatch, rows: np.ndarray) -> SparseBatch:
    """Return the given rows, in the given order; a row may be given twice. CPU only."""
    arrays = (matrix.index.numpy(), matrix.value.numpy(), matrix.offset.numpy())
    return SparseBatch(*map(torch.from_numpy, _take(*arrays, rows.ravel())))


@compiled
def _take(index, value, offset, rows):  # type: ignore[no-untyped-def]
    ends = np.zeros(len(rows) + 1, np.int64)
    for i in range(len(rows)):
        ends[i + 1] = ends[i] + offset[rows[i] + 1] - offset[rows[i]]
    taken, values = np.empty(ends[-1], np.int64), np.empty(ends[-1], value.dtype)
    for i in range(len(rows)):
        first = offset[rows[i]] - ends[i]
        for e in range(ends[i], ends[i + 1]):
            taken[e], values[e] = index[first + e], value[first + e]
    return taken, values, ends
