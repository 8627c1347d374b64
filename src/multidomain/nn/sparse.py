"""Sparse batches: the input of extractors, never made dense before the first layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from multidomain.nn import kernels


@dataclass(frozen=True)
class SparseBatch:
    """A batch of sparse rows.

    Row ``i`` has the values ``value[offset[i]:offset[i + 1]]`` in the columns ``index[...]``.

    Attributes
    ----------
    counts
        The number of values in each row, where it is known outside of the device that the rows are on. Every shape
        that depends on the data is computed from it, so an accelerator is never waited for.
    """

    index: Tensor  # (non-zeros,) int64
    value: Tensor  # (non-zeros,) float
    offset: Tensor  # (rows + 1,) int64
    counts: np.ndarray | None = field(default=None, kw_only=True)  # (rows,) int64

    def __len__(self) -> int:
        return len(self.offset) - 1

    @property
    def device(self) -> torch.device:
        """Return the device that the rows are on."""
        return self.value.device

    @property
    def lengths(self) -> np.ndarray:
        """Return the number of values in each row, shape (rows,)."""
        return np.diff(self.offset.cpu().numpy()) if self.counts is None else self.counts

    def with_dropout(self, p: float) -> SparseBatch:
        """Return the rows with each value dropped with probability `p`, the others scaled up to compensate."""
        kept = torch.rand(len(self.value), device=self.device) >= p
        if not kernels.run_on(self.device):  # how many are kept is known on the device alone, so all keep their places
            return replace(self, value=self.value * kept.to(self.value.dtype) / (1 - p))
        rows = self._where(kept)
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
            counts=None if self.counts is None or other.counts is None else np.concatenate([self.counts, other.counts]),
        )

    def blocks(self, chosen: Sequence[int], size: int) -> SparseBatch:
        """Return some of the blocks of `size` rows that these rows are made of."""
        rows = np.concatenate([np.arange(b * size, (b + 1) * size) for b in chosen] or [np.empty(0, np.int64)])
        return _taken(self, rows, np.concatenate([[0], self.lengths.cumsum()]))

    def to_dense(self, n_columns: int) -> Tensor:
        """Return the rows as a dense matrix, shape (rows, n_columns)."""
        dense = self.value.new_zeros(len(self), n_columns)
        return dense.index_put_((self.row_of_value, self.index), self.value, accumulate=True)

    @property
    def row_of_value(self) -> Tensor:
        """Return the row of each value, shape (non-zeros,)."""
        rows = torch.arange(len(self), device=self.device)
        return torch.repeat_interleave(rows, self.offset.diff(), output_size=len(self.index))


class SparseMatrix:
    """All rows of a data set, from which batches are cut without a Python loop over rows."""

    def __init__(self, matrix: csr_matrix, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32):
        matrix = csr_matrix(matrix)
        self._start = matrix.indptr.astype(np.int64)
        self._rows = SparseBatch(
            torch.as_tensor(matrix.indices.astype(np.int64)).to(device),
            torch.as_tensor(matrix.data).to(dtype).to(device),  # converted here: not every device has doubles
            torch.as_tensor(self._start).to(device),
            counts=np.diff(self._start),
        )

    def __len__(self) -> int:
        return len(self._start) - 1

    @property
    def device(self) -> torch.device:
        return self._rows.device

    def all(self) -> SparseBatch:
        """Return all rows as one batch."""
        return self._rows

    def take(self, rows: np.ndarray | Tensor) -> SparseBatch:
        """Return the given rows, in the given order; a row may be given twice."""
        return _taken(self._rows, np.asarray(rows, np.int64).reshape(-1), self._start)


def _taken(x: SparseBatch, rows: np.ndarray, start_of_row: np.ndarray) -> SparseBatch:
    """Return rows of a batch, where `start_of_row` is its offset, known here."""
    start, lengths = start_of_row[rows], start_of_row[rows + 1] - start_of_row[rows]
    ends = np.concatenate([[0], lengths.cumsum()])
    at = np.repeat(start - ends[:-1], lengths) + np.arange(ends[-1])
    place, offset = (torch.as_tensor(numbers).to(x.device) for numbers in (at, ends))
    return SparseBatch(x.index[place], x.value[place], offset, counts=lengths)
