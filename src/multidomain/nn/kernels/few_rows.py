"""Batched products with few rows in each batch, most of whose numbers are zero, as they are after ReLU and dropout.

A weight row is read once, for the rows that are not zero there. The gradient of the weights, which has as many numbers
as they have, stays two factors until Adam uses it, one row at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from multidomain.kernels.compiled import compiled, compiled_in_any_order
from multidomain.nn.kernels.row_sum import RowGradient
from multidomain.nn.sparse import SparseBatch

FEW = 16
"""Rows of a batch up to which this is faster than `torch.bmm`."""


def bmm_after_relu(h: Tensor, weight: Tensor) -> Tensor:
    """Return ``torch.bmm(h, weight)``, with a `RowGradient` of the weights that has all rows of all batches.

    Where `h` is zero it gets no gradient, since ReLU and dropout would not pass it on.
    """
    return _Product.apply(h, weight)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor) -> Tensor:
        ctx.weight, ctx.shape = weight, h.shape
        ctx.columns = _columns(h.detach().contiguous().numpy())
        out = h.new_zeros(h.shape[0] * h.shape[1], weight.shape[2])
        _multiply(_rows(weight), ctx.columns, out.numpy())
        return out.view(*h.shape[:2], -1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        weight, of_output = ctx.weight, gradient.contiguous().view(-1, gradient.shape[2])
        assert getattr(weight, "row_gradient", None) is None, "one pass through a layer in each step"
        batch = SparseBatch(*map(torch.from_numpy, ctx.columns))
        weight.row_gradient = RowGradient(torch.arange(len(batch)), batch, of_output)
        of_h = gradient.new_zeros(ctx.shape)
        _multiply_back(_rows(weight), ctx.columns, of_output.numpy(), of_h.numpy())
        return of_h, None


def _rows(weight: Tensor) -> np.ndarray:
    return weight.detach().view(-1, weight.shape[2]).numpy()


@compiled
def _columns(h):  # type: ignore[no-untyped-def]
    """Return the columns of all batches as sparse rows: numbers of the batches' rows, values, offsets."""
    row, value = np.empty(h.size, np.int64), np.empty(h.size, h.dtype)
    offset = np.zeros(h.shape[0] * h.shape[2] + 1, np.int64)
    n = 0
    for c in range(h.shape[0]):
        for k in range(h.shape[2]):
            for b in range(h.shape[1]):
                if h[c, b, k] != 0:
                    row[n], value[n] = c * h.shape[1] + b, h[c, b, k]
                    n += 1
            offset[c * h.shape[2] + k + 1] = n
    return row[:n], value[:n], offset


@compiled
def _multiply(weight, columns, out):  # type: ignore[no-untyped-def]
    row, value, offset = columns
    for k in range(len(weight)):
        for e in range(offset[k], offset[k + 1]):
            b, x = row[e], value[e]
            for j in range(weight.shape[1]):
                out[b, j] += x * weight[k, j]


@compiled_in_any_order
def _multiply_back(weight, columns, of_output, of_h):  # type: ignore[no-untyped-def]
    row, _, offset = columns
    n_rows, width = of_h.shape[1], of_h.shape[2]
    for k in range(len(weight)):
        for e in range(offset[k], offset[k + 1]):
            b, total = row[e], weight.dtype.type(0)
            for j in range(weight.shape[1]):
                total += of_output[b, j] * weight[k, j]
            of_h[k // width, b % n_rows, k % width] = total
