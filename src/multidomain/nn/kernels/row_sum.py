"""The first layer: weighted sums of the weight rows indexed by a sparse batch, and their gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional

from multidomain.nn.sparse import SparseBatch


def row_sum(x: SparseBatch, weight: Tensor) -> Tensor:
    """Return the product of a sparse batch and a weight matrix, shape (rows, weight.shape[1])."""
    return functional.embedding_bag(
        x.index, weight, x.offset, mode="sum", per_sample_weights=x.value, include_last_offset=True
    )


@dataclass(frozen=True)
class RowGradient:
    """The gradient of a weight matrix of which a batch reads few rows, stored in its ``row_gradient``.

    It is kept as two factors, of which an optimiser can make one row at a time: the transposed batch, and the gradient
    of what was computed. The dense gradient, nearly all zeros, is never allocated.

    Attributes
    ----------
    rows
        The weight rows that have a gradient, each once.
    batch
        For each of them, the rows of the output that it went into, and how much.
    of_output
        Gradient of the output, shape (rows of the output, weight.shape[1]).
    """

    rows: Tensor
    batch: SparseBatch
    of_output: Tensor

    @classmethod
    def of_rows(cls, rows: Tensor, values: Tensor) -> Self:
        """Return a gradient that is known row by row."""
        own = torch.arange(len(rows) + 1)
        return cls(rows, SparseBatch(own[:-1], values.new_ones(len(rows)), own), values)

    @property
    def values(self) -> Tensor:
        """Return the gradient of each of the rows."""
        return row_sum(self.batch, self.of_output)
