"""The first layer: weighted sums of the weight rows indexed by a sparse batch, and their gradient."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from multidomain.nn import kernels
from multidomain.nn.sparse import SparseBatch

_AT_A_TIME = 1 << 25  # numbers of weight rows, which bounds the memory for them


def row_sum(x: SparseBatch, weight: Tensor) -> Tensor:
    """Return the product of a sparse batch and a weight matrix, shape (rows, weight.shape[1])."""
    if not kernels.has_fused(x.device):
        return _RowSum.apply(weight, x)
    return functional.embedding_bag(
        x.index, weight, x.offset, mode="sum", per_sample_weights=x.value, include_last_offset=True
    )


class _RowSum(torch.autograd.Function):
    """The same in operations that every device has; weight rows are read some at a time."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, x: SparseBatch) -> Tensor:
        ctx.x, ctx.shape = x, weight.shape
        sums = weight.new_zeros(len(x), weight.shape[1])
        for some, row in _pieces(x, weight.shape[1]):
            sums.index_add_(0, row, weight[x.index[some]] * x.value[some, None])
        return sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        x, of_weight = ctx.x, gradient.new_zeros(ctx.shape)
        for some, row in _pieces(x, gradient.shape[1]):
            of_weight.index_add_(0, x.index[some], gradient[row] * x.value[some, None])
        return of_weight, None


def _pieces(x: SparseBatch, width: int) -> Iterator[tuple[slice, Tensor]]:
    """Yield some values of a batch at a time, and the rows they are in."""
    row, size = x.row_of_value, max(1, _AT_A_TIME // width)
    for start in range(0, len(x.index), size):
        some = slice(start, start + size)
        yield some, row[some]


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
