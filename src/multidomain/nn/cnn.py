"""Convolutional networks over words as feature extractors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from multidomain.nn.conv_pool import conv_pool
from multidomain.nn.dropout import dropout
from multidomain.nn.extractor_base import Extractor, uniform
from multidomain.nn.rows import Rows


class CNNExtractor(Extractor):
    """`copies` convolutional networks of one shape, each with word vectors of its own.

    Word vectors, filters of several sizes, the maximum over time, ReLU, dropout, a linear layer, ReLU (Kim 2014, with
    the sizes of MAN's appendix). Documents have any lengths: nothing is padded.

    Parameters
    ----------
    copies
        How many independent networks.
    n_inputs, dimension
        Words, and the length of their vectors.
    sizes, filters
        Kernel sizes, and the number of filters of each.
    n_outputs
        Width of the feature vector.
    dropout
        Probability of dropping an input of the linear layer.
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
        super().__init__(copies, n_inputs)
        self.sizes = tuple(sizes)
        self.dropout = dropout
        width = filters * len(sizes)
        self.vectors = nn.Parameter(torch.randn(copies * n_inputs, dimension) * dimension**-0.5)
        kernels = [uniform(copies, size, filters, dimension, fan_in=size * dimension) for size in sizes]
        self.filters = nn.Parameter(torch.cat([kernel.detach() for kernel in kernels], dim=1))
        biases = [uniform(copies, 1, filters, fan_in=size * dimension) for size in sizes]
        self.filter_bias = nn.Parameter(torch.cat([bias.detach() for bias in biases], dim=2))
        self.weight = uniform(copies, width, n_outputs, fan_in=width)
        self.bias = uniform(copies, 1, n_outputs, fan_in=width)

    @property
    def table(self) -> nn.Parameter:
        return self.vectors

    def forward(self, x: Rows, copy: int | None = None) -> Tensor:
        def of_copy(parameter: Tensor) -> Tensor:
            return parameter if copy is None else parameter[copy : copy + 1]

        filters = of_copy(self.filters)
        pooled = conv_pool(self._in_table(x, copy), self.vectors, filters, self.sizes, self._learns_by_rows)
        pooled = pooled.view(len(filters), -1, pooled.shape[-1])
        h = dropout((pooled + of_copy(self.filter_bias)).relu(), self.dropout, self.training)
        return torch.baddbmm(of_copy(self.bias), h, of_copy(self.weight)).relu()
