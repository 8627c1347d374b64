"""MLP feature extractors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Self

import torch
from torch import Tensor, nn

from multidomain.nn.dropout import relu_dropout
from multidomain.nn.extractors.base import Extractor, of_copy, register, uniform
from multidomain.nn.kernels.row_sum import row_sum
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
        h, bias = self._first_layer(x, copy), self.first_bias  # (copies, rows, hidden[0])
        for weight, next_bias in zip(self.weights, self.biases, strict=True):
            h = relu_dropout(h, of_copy(bias, copy), self.dropout, self.training)
            h, bias = self._product(h, weight, copy), next_bias
        return (h + of_copy(bias, copy)).relu()

    def _first_layer(self, x: SparseBatch, copy: int | None) -> Tensor:
        copies, learning = (self.copies if copy is None else 1), self._learning
        if learning is not None:
            own = x if copy is None else self._in_table(x, copy)
            sums = learning.row_sum(own, self.first_weight, copies, self.dropout)
        else:
            dropped = x.with_dropout(self.dropout) if self.training and self.dropout else x
            sums = row_sum(self._in_table(dropped, copy), self.first_weight)
        return sums.view(copies, -1, sums.shape[-1])

    def _product(self, h: Tensor, weight: Tensor, copy: int | None) -> Tensor:
        if self._learning is not None and copy is None:
            from multidomain.nn.kernels.few_rows import FEW, bmm_after_relu  # here: prediction must not load a compiler
            from multidomain.nn.kernels.product import product

            return bmm_after_relu(h, weight) if h.shape[1] <= FEW else product(h, weight)
        return torch.bmm(h, of_copy(weight, copy))
