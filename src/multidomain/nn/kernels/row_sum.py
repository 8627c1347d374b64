"""The first layer: weighted sums of the weight rows indexed by a sparse batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from multidomain.nn.sparse import SparseBatch


def row_sum(x: SparseBatch, weight: Tensor) -> Tensor:
    """Return the product of a sparse batch and a weight matrix, shape (rows, weight.shape[1])."""
    return functional.embedding_bag(
        x.index, weight, x.offset, mode="sum", per_sample_weights=x.value, include_last_offset=True
    )


def row_sum_with_row_gradient(x: SparseBatch, weight: Tensor) -> Tensor:
    """Do the same, but store the weight's gradient in ``weight.row_gradient``, only for the rows in `x`.

    It is a pair: row numbers, ascending, and one gradient row for each. The dense gradient, nearly all zeros, is never
    allocated.
    """
    return _RowSum.apply(weight, x)


class _RowSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, x: SparseBatch) -> Tensor:
        ctx.weight, ctx.x = weight, x
        return row_sum(x, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None]:
        x: SparseBatch = ctx.x
        # The transposed product: for each weight row, the weighted sum of the gradients of the batch rows that used it.
        index, order = torch.sort(x.index)
        rows, counts = torch.unique_consecutive(index, return_counts=True)
        offset = torch.zeros(len(rows) + 1, dtype=torch.int64)
        torch.cumsum(counts, 0, out=offset[1:])
        transposed = SparseBatch(x.row_of_value[order], x.value[order], offset)
        assert ctx.weight.row_gradient is None, "one pass through the first layer in each step"
        ctx.weight.row_gradient = (rows, row_sum(transposed, gradient.contiguous()))
        return None, None
