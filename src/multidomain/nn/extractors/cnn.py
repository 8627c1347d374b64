"""Convolutional networks over words as feature extractors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from multidomain.nn.extractors.base import WordExtractor, of_copy, uniform
from multidomain.nn.kernels.conv_pool import conv_pool
from multidomain.nn.sparse import SparseBatch


class CNNExtractor(WordExtractor):
    """`copies` convolutional networks of one shape, each with word vectors of its own.

    Word vectors, filters of several sizes, the maximum over time, ReLU, dropout, a linear layer, ReLU (Kim 2014, with
    the sizes of MAN's appendix). Documents have any lengths: nothing is padded.

    Parameters
    ----------
    copies, n_inputs, dimension, n_outputs, dropout
        As for `WordExtractor`.
    sizes, filters
        Kernel sizes, and the number of filters of each.
    """

    def __init__(
        self,
        copies: int,
        n_inputs: int,
        dimension: int,
        sizes: Sequence[int],
        filters: int,
        n_outputs: int,
        dropout: float,
    ):
        super().__init__(copies, n_inputs, dimension, filters * len(sizes), n_outputs, dropout)
        self.sizes = tuple(sizes)
        kernels = [uniform(copies, size, filters, dimension, fan_in=size * dimension) for size in sizes]
        self.filters = nn.Parameter(torch.cat([kernel.detach() for kernel in kernels], dim=1))
        biases = [uniform(copies, 1, filters, fan_in=size * dimension) for size in sizes]
        self.filter_bias = nn.Parameter(torch.cat([bias.detach() for bias in biases], dim=2))

    def forward(self, x: SparseBatch, copy: int | None = None) -> Tensor:
        filters = of_copy(self.filters, copy)
        pooled = conv_pool(self._in_table(x, copy), self.vectors, filters, self.sizes, self._learns_by_rows)
        pooled = pooled.view(len(filters), -1, pooled.shape[-1])
        return self._features((pooled + of_copy(self.filter_bias, copy)).relu(), copy)
