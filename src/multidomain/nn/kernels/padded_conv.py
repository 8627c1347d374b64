"""The same as `multidomain.nn.kernels.conv_pool` in plain torch, for accelerators: documents are padded."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from multidomain.nn.sparse import SparseBatch

_WORDS_AT_A_TIME = 1 << 18  # padding included, which bounds the memory for responses


def padded_conv_pool(x: SparseBatch, table: Tensor, filters: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Return what `conv_pool` returns; the gradient of a table that requires one is dense."""
    copies, n = len(filters), filters.shape[2]
    lengths, padding = x.lengths.reshape(copies, -1), len(x.index)
    first_word = (x.lengths.cumsum() - x.lengths).reshape(copies, -1)
    words = torch.cat([x.index, x.index.new_zeros(1)])  # one more, for padding: its vector counts as zero
    kernels = [_kernel(part) for part in filters.split(sizes, dim=1)]
    pooled = [table.new_empty(0, copies, len(sizes) * n)]
    for documents, width in _blocks(lengths, max(sizes)):
        length = lengths[:, documents].T[:, :, None]  # (documents, copies, 1)
        at = np.arange(width)
        places = np.where(at < length, first_word[:, documents].T[:, :, None] + at, padding)
        word, exists = (torch.as_tensor(array).to(x.device) for array in (places, at < length))
        vectors = functional.embedding(words[word], table) * exists.unsqueeze(-1)
        pooled.append(_largest(vectors, length, kernels))
    return torch.cat(pooled).transpose(0, 1).flatten(0, 1)


def _blocks(lengths: np.ndarray, shortest: int) -> Iterator[tuple[slice, int]]:
    """Yield documents of each copy to compute at a time, and the length to which they are padded."""
    longest = np.maximum(lengths.max(axis=0, initial=0), shortest)  # of the documents at the same place
    start = 0
    while start < len(longest):
        widths = np.maximum.accumulate(longest[start:])
        fits = widths * np.arange(1, len(widths) + 1) * len(lengths) <= _WORDS_AT_A_TIME
        end = start + max(1, int(fits.sum()))
        yield slice(start, end), int(widths[end - start - 1])
        start = end


def _kernel(filters: Tensor) -> Tensor:
    """Return filters of one size, shape (copies, size, n, dimension), as `conv1d` takes them for a group per copy."""
    return filters.permute(0, 2, 3, 1).flatten(0, 1)


def _largest(vectors: Tensor, length: np.ndarray, kernels: list[Tensor]) -> Tensor:
    """Return the largest responses in padded documents, shape (documents, copies, kernels * n).

    Parameters
    ----------
    vectors
        Shape (documents, copies, words, dimension).
    length
        Words of each document, shape (documents, copies, 1).
    """
    copies, width = vectors.shape[1:3]
    channels = vectors.transpose(2, 3).flatten(1, 2)  # (documents, copies * dimension, words)
    pooled = []
    for kernel in kernels:
        size = kernel.shape[2]
        responses = functional.conv1d(channels, kernel, groups=copies).unflatten(1, (copies, -1))
        # A document shorter than the kernel has one response, of its words and zeros.
        beyond = np.arange(width - size + 1) >= np.maximum(length - size + 1, 1)
        beyond_end = torch.as_tensor(beyond).to(vectors.device).unsqueeze(2)
        pooled.append(responses.masked_fill(beyond_end, -torch.inf).max(dim=3).values)
    return torch.cat(pooled, dim=2)
