"""CNN feature extractors over token sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from multidomain.nn import kernels
from multidomain.nn.extractors.base import WORD_SETTINGS, WordExtractor, of_copy, register, uniform
from multidomain.nn.kernels.padded_conv import padded_conv_pool
from multidomain.nn.sparse import SparseBatch


@register("cnn", "convolutional network", uses=(*WORD_SETTINGS, "kernel_sizes", "filters"))
class CNNExtractor(WordExtractor):
    """`copies` CNNs of the same shape, each with its own word vectors.

    Word vectors, filters of several sizes, max-over-time pooling, ReLU, dropout, a linear layer, ReLU (Kim 2014, with
    the sizes from MAN's appendix). Documents may have any length: nothing is padded.

    Parameters
    ----------
    copies, n_inputs, dimension, n_outputs, dropout
        As for `WordExtractor`.
    sizes, filters
        Kernel sizes, and the number of filters per size.
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

    @classmethod
    def from_settings(cls, settings: Any, copies: int, n_inputs: int, n_outputs: int, **options: Any) -> Self:
        s = settings
        return cls(copies, n_inputs, s.dimension, s.kernel_sizes, s.filters, n_outputs, s.dropout)

    def forward(self, x: SparseBatch, copy: int | None = None) -> Tensor:
        x, filters = self._in_table(x, copy), of_copy(self.filters, copy)
        pooled = self._pooled(x, filters) if kernels.run_on(x.device) else self._padded(x, filters)
        pooled = pooled.view(len(filters), -1, pooled.shape[-1])
        return self._features((pooled + of_copy(self.filter_bias, copy)).relu(), copy)

    def _pooled(self, x: SparseBatch, filters: Tensor) -> Tensor:
        from multidomain.nn.kernels.conv_pool import conv_pool  # here: other extractors need not wait for a compiler

        if self._learning is not None:
            self._learning.refresh(self.vectors, x.index)
        return conv_pool(x, self.vectors, filters, self.sizes, self._learning is not None)

    def _padded(self, x: SparseBatch, filters: Tensor) -> Tensor:
        return padded_conv_pool(x, self.vectors, filters, self.sizes)
