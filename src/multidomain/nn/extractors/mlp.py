"""MLP feature extractors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Self

import torch
from torch import Tensor, nn

from multidomain.nn.dropout import dropout
from multidomain.nn.extractors.base import Extractor, of_copy, register, uniform
from multidomain.nn.kernels.row_sum import row_sum, row_sum_with_row_gradient
from multidomain.nn.sparse import SparseBatch


@register("mlp", "multilayer perceptron", uses=("hidden", "private_hidden"))
class MLPExtractor(Extractor):
    """`copies` multilayer perceptrons of the same shape, batched over sparse rows.

    Dropout before each layer, ReLU after each, including the last (decision 7). The first layer is a
    weighted sum of the weight rows of the non-zero columns, so its cost is linear in the number of
    non-zeros; the later layers of all copies are one batched product.

    Parameters
    ----------
    copies
        Number of independent perceptrons: 1 for F_s, the number of labelled domains for F_d.
    n_inputs, hidden, n_outputs
        Widths of the sparse input, the hidden layers and the feature vector.
    dropout
        Probability of dropping an input of any layer.
    """

    featurizer = "ngrams"

    def __init__(self, copies: int, n_inputs: int, hidden: Sequence[int], n_outputs: int, dropout: float):
        super().__init__(copies, n_inputs)
        sizes = [n_inputs, *hidden, n_outputs]
        self.dropout = dropout
        self.first_weight = uniform(copies * n_inputs, sizes[1], fan_in=n_inputs)
        self.first_bias = uniform(copies, 1, sizes[1], fan_in=n_inputs)
        deeper = list(pairwise(sizes[1:]))
        self.weights = nn.ParameterList(uniform(copies, a, b, fan_in=a) for a, b in deeper)
        self.biases = nn.ParameterList(uniform(copies, 1, b, fan_in=a) for a, b in deeper)

    @classmethod
    def from_settings(cls, settings: Any, copies: int, n_inputs: int, n_outputs: int, **options: Any) -> Self:
        return cls(copies, n_inputs, settings.hidden, n_outputs, settings.dropout)

    @property
    def table(self) -> nn.Parameter:
        return self.first_weight

    def forward(self, x: SparseBatch, copy: int | None = None) -> Tensor:
        h = (self._first_layer(x, copy) + of_copy(self.first_bias, copy)).relu()  # (copies, rows, hidden[0])
        for weight, bias in zip(self.weights, self.biases, strict=True):
            h = dropout(h, self.dropout, self.training)
            h = torch.baddbmm(of_copy(bias, copy), h, of_copy(weight, copy)).relu()
        return h

    def _first_layer(self, x: SparseBatch, copy: int | None) -> Tensor:
        if self.training and self.dropout:
            x = x.with_dropout(self.dropout)
        x = self._in_table(x, copy)
        sums = (row_sum_with_row_gradient if self._learns_by_rows else row_sum)(x, self.first_weight)
        return sums.view(1 if copy is not None else self.copies, -1, sums.shape[-1])
