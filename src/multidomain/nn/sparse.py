"""Sparse batches: the input of extractors, never made dense before the first layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor


@dataclass(frozen=True)
class SparseBatch:
    """A batch of sparse rows.

    Row ``i`` has the values ``value[offset[i]:offset[i + 1]]`` in the columns ``index[...]``.
    """

    index: Tensor  # (non-zeros,) int64
    value: Tensor  # (non-zeros,) float
    offset: Tensor  # (rows + 1,) int64

    def __len__(self) -> int:
        return len(self.offset) - 1

    def with_dropout(self, p: float) -> SparseBatch:
        """Return the rows with each value dropped with probability `p`, the others scaled up to compensate."""
        rows = self._where(torch.rand(len(self.value), device=self.value.device) >= p)
        return SparseBatch(rows.index, rows.value / (1 - p), rows.offset)

    def _where(self, kept: Tensor) -> SparseBatch:
        offset = torch.zeros(len(kept) + 1, dtype=torch.int64, device=kept.device)
        torch.cumsum(kept, 0, out=offset[1:])
        at = kept.nonzero().squeeze(1)
        return SparseBatch(self.index[at], self.value[at], offset[self.offset])

    def __add__(self, other: SparseBatch) -> SparseBatch:
        """Concatenate the rows of both."""
        return SparseBatch(
            torch.cat([self.index, other.index]),
            torch.cat([self.value, other.value]),
            torch.cat([self.offset, other.offset[1:] + self.offset[-1]]),
        )

    def blocks(self, chosen: Sequence[int], size: int) -> SparseBatch:
        """Return some of the blocks of `size` rows that these rows are made of."""
        device = self.offset.device
        rows = torch.cat([torch.arange(b * size, (b + 1) * size, device=device) for b in chosen] or [self.index[:0]])
        return _taken(self.index, self.value, self.offset, rows)

    def to_dense(self, n_columns: int) -> Tensor:
        """Return the rows as a dense matrix, shape (rows, n_columns)."""
        dense = self.value.new_zeros(len(self), n_columns)
        return dense.index_put_((self.row_of_value, self.index), self.value, accumulate=True)

    @property
    def row_of_value(self) -> Tensor:
        """Return the row of each value, shape (non-zeros,)."""
        lengths = self.offset.diff()
        return torch.repeat_interleave(torch.arange(len(self), device=lengths.device), lengths)


class SparseMatrix:
    """All rows of a data set, from which batches are cut without a Python loop over rows."""

    def __init__(self, matrix: csr_matrix, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32):
        matrix = csr_matrix(matrix)
        self._start = torch.from_numpy(matrix.indptr.astype(np.int64)).to(device)
        self._index = torch.from_numpy(matrix.indices.astype(np.int64)).to(device)
        self._value = torch.from_numpy(matrix.data).to(device, dtype)

    def __len__(self) -> int:
        return len(self._start) - 1

    @property
    def device(self) -> torch.device:
        return self._start.device

    def all(self) -> SparseBatch:
        """Return all rows as one batch."""
        return SparseBatch(self._index, self._value, self._start)

    def take(self, rows: np.ndarray | Tensor) -> SparseBatch:
        """Return the given rows, in the given order; a row may be given twice."""
        chosen = torch.as_tensor(rows, dtype=torch.int64, device=self._start.device).reshape(-1)
        return _taken(self._index, self._value, self._start, chosen)


def _taken(index: Tensor, value: Tensor, start_of_row: Tensor, chosen: Tensor) -> SparseBatch:
    start = start_of_row[chosen]
    lengths = start_of_row[chosen + 1] - start
    offset = torch.zeros(len(chosen) + 1, dtype=torch.int64, device=start.device)
    torch.cumsum(lengths, 0, out=offset[1:])
    at = torch.repeat_interleave(start - offset[:-1], lengths)
    at += torch.arange(len(at), device=at.device)
    return SparseBatch(index[at], value[at], offset)
