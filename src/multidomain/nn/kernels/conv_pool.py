"""Convolution over words, then max-over-time pooling: the first layer of the CNN, on documents of any length.

Each filter has its maximum at one position of each document. So the forward pass multiplies each distinct word of a
batch once with all filters and sums the rows of neighbouring words; the backward pass only visits the positions of the
maxima. The results equal those of a dense convolution and maximum, with about a hundredth of the backward work. CPU
only; the plain form is in `multidomain.nn.kernels.padded_conv`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from multidomain.kernels.compiled import compiled
from multidomain.nn.kernels.row_sum import RowGradient
from multidomain.nn.sparse import SparseBatch

_DOCUMENTS_AT_A_TIME = 256  # bounds the memory for products of words and filters


def conv_pool(x: SparseBatch, table: Tensor, filters: Tensor, sizes: tuple[int, ...], learns_words: bool) -> Tensor:
    """Return the largest response of each filter in each document, without bias, shape (rows, len(sizes) * n).

    Parameters
    ----------
    x
        Documents as token sequences (`index`); the same number per copy of the filters, copy 0 first.
    table
        Word vectors, shape (words, dimension); `x.index` are its rows.
    filters
        Shape (copies, sum(sizes), n, dimension): the positions of each kernel size in turn, with n filters per
        position.
    sizes
        Kernel sizes. A document shorter than a kernel is treated as zero-padded.
    learns_words
        Store the gradient of the word vectors in ``table.row_gradient``, a `RowGradient`. Otherwise a table
        that requires a gradient gets a dense one.
    """
    return _ConvPool.apply(filters, table, x, sizes, learns_words)


class _ConvPool(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, filters: Tensor, table: Tensor, x: SparseBatch, sizes: tuple[int, ...], learns: bool
    ) -> Tensor:
        copies, n = len(filters), filters.shape[2]
        out = table.new_empty(len(x), len(sizes) * n)
        at = torch.empty(out.shape, dtype=torch.int32)
        blocks = []
        for copy, first, end in _blocks(len(x), copies):
            offset = x.offset[first : end + 1]
            index = x.index[offset[0] : offset[-1]]
            rows, word = torch.unique(index, return_inverse=True)
            vectors = table.detach()[rows]
            products = vectors @ filters[copy].detach().flatten(0, 1).T  # (distinct words, positions * n)
            _largest(
                products.numpy(), word.numpy(), (offset - offset[0]).numpy(), sizes, n,
                out[first:end].numpy(), at[first:end].numpy(),
            )  # fmt: skip
            if any(ctx.needs_input_grad):
                blocks.append((copy, first, end, rows, word, offset - offset[0], vectors))
        ctx.blocks, ctx.at, ctx.sizes, ctx.table, ctx.learns = blocks, at, sizes, table, learns
        ctx.save_for_backward(filters)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None, None, None]:
        (filters,) = ctx.saved_tensors
        d_filters = torch.zeros_like(filters)
        gradient = gradient.contiguous()
        named, d_vectors = [], []
        for copy, first, end, rows, word, offset, vectors in ctx.blocks:
            d_words = torch.zeros_like(vectors)
            _scatter(
                gradient[first:end].numpy(), ctx.at[first:end].numpy(), word.numpy(), offset.numpy(), ctx.sizes,
                vectors.numpy(), filters[copy].detach().numpy(), d_words.numpy(), d_filters[copy].numpy(),
            )  # fmt: skip
            named.append(rows)
            d_vectors.append(d_words)
        if ctx.learns:
            assert ctx.table.row_gradient is None, "one pass through the first layer in each step"
            ctx.table.row_gradient = RowGradient.of_rows(*_added(named, d_vectors))
            return d_filters, None, None, None, None
        d_table = None
        if ctx.needs_input_grad[1]:
            rows, d_rows = _added(named, d_vectors)
            d_table = torch.zeros_like(ctx.table).index_copy_(0, rows, d_rows)
        return d_filters, d_table, None, None, None


def _blocks(n_rows: int, copies: int) -> list[tuple[int, int, int]]:
    """Return copy, first and last document of each block to compute."""
    each = n_rows // copies
    size = min(each, _DOCUMENTS_AT_A_TIME) or 1
    return [
        (copy, first, min(first + size, (copy + 1) * each))
        for copy in range(copies)
        for first in range(copy * each, (copy + 1) * each, size)
    ]


def _added(named: list[Tensor], gradients: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Sum the gradient rows of several blocks: each table row once, ascending."""
    if len(named) == 1:
        return named[0], gradients[0]
    rows, place = torch.unique(torch.cat(named), return_inverse=True)
    total = gradients[0].new_zeros(len(rows), gradients[0].shape[1])
    return rows, total.index_add_(0, place, torch.cat(gradients))


@compiled
def _largest(products, word, offset, sizes, n, out, at):  # type: ignore[no-untyped-def]
    """Fill in the largest sum of a filter's products over a document's positions, and its position."""
    sums = np.empty(n, products.dtype)
    for d in range(len(offset) - 1):
        begin, end = offset[d], offset[d + 1]
        position = 0
        for s in range(len(sizes)):
            size = sizes[s]
            best, where = out[d, s * n : (s + 1) * n], at[d, s * n : (s + 1) * n]
            best[:] = -np.inf
            where[:] = 0
            for t in range(max(1, end - begin - size + 1)):
                sums[:] = 0
                for o in range(min(size, end - begin - t)):
                    p = products[word[begin + t + o], (position + o) * n : (position + o + 1) * n]
                    for j in range(n):
                        sums[j] += p[j]
                for j in range(n):
                    better = sums[j] > best[j]
                    best[j] = sums[j] if better else best[j]
                    where[j] = t if better else where[j]
            position += size


@compiled
def _scatter(gradient, at, word, offset, sizes, vectors, filters, d_words, d_filters):  # type: ignore[no-untyped-def]
    """Accumulate the gradients of words and filters at the positions of the maxima."""
    n = filters.shape[1]
    for d in range(len(offset) - 1):
        begin, end = offset[d], offset[d + 1]
        position = 0
        for s in range(len(sizes)):
            size = sizes[s]
            for j in range(n):
                g = gradient[d, s * n + j]
                if g == 0:
                    continue
                t = at[d, s * n + j]
                for o in range(min(size, end - begin - t)):
                    w = word[begin + t + o]
                    vector, filter_ = vectors[w], filters[position + o, j]
                    d_word, d_filter = d_words[w], d_filters[position + o, j]
                    for i in range(len(vector)):
                        d_filter[i] += g * vector[i]
                        d_word[i] += g * filter_[i]
            position += size
