"""Feature extractors: F_s is one, the F_d of all labelled domains are one that holds a copy for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from multidomain.nn.dropout import dropout
from multidomain.nn.row_sum import row_sum, row_sum_with_row_gradient
from multidomain.nn.rows import Rows

if TYPE_CHECKING:
    from multidomain.nn.row_adam import RowAdam


class MLPExtractor(nn.Module):
    """`copies` multilayer perceptrons of one shape, run side by side on sparse rows.

    Dropout before each layer, ReLU after each, the last included (decision 7). The first layer is a
    weighted sum of the weight rows of the columns that occur, so its cost follows the number of
    non-zeros; the later layers of all copies are one batched product.

    Parameters
    ----------
    copies
        How many independent perceptrons: 1 for F_s, the number of labelled domains for F_d.
    n_inputs, hidden, n_outputs
        Width of the sparse input, of the hidden layers, of the feature vector.
    dropout
        Probability of dropping an input of any layer.
    """

    def __init__(self, copies: int, n_inputs: int, hidden: Sequence[int], n_outputs: int, dropout: float):
        super().__init__()
        sizes = [n_inputs, *hidden, n_outputs]
        self.copies = copies
        self.n_inputs = n_inputs
        self.dropout = dropout
        self.row_optimiser: RowAdam | None = None  # updates the first layer, if there is one for it alone
        # Copy c owns rows c * n_inputs to (c + 1) * n_inputs of the first layer.
        self.first_weight = _uniform(copies * n_inputs, sizes[1], fan_in=n_inputs)
        self.first_bias = _uniform(copies, 1, sizes[1], fan_in=n_inputs)
        deeper = list(pairwise(sizes[1:]))
        self.weights = nn.ParameterList(_uniform(copies, a, b, fan_in=a) for a, b in deeper)
        self.biases = nn.ParameterList(_uniform(copies, 1, b, fan_in=a) for a, b in deeper)

    def forward(self, x: Rows, copy: int | None = None) -> Tensor:
        """Extract features.

        Parameters
        ----------
        x
            Equally many rows for each copy, those of copy 0 first; or any rows for one `copy`.
        copy
            Run only this copy.

        Returns
        -------
        Tensor
            Shape (copies, rows of each, n_outputs); the first dimension is 1 when `copy` is given.
        """

        def of_copy(parameter: Tensor) -> Tensor:
            return parameter if copy is None else parameter[copy : copy + 1]

        h = (self._first_layer(x, copy) + of_copy(self.first_bias)).relu()  # (copies, rows, hidden[0])
        for weight, bias in zip(self.weights, self.biases, strict=True):
            h = dropout(h, self.dropout, self.training)
            h = torch.baddbmm(of_copy(bias), h, of_copy(weight)).relu()
        return h

    def _first_layer(self, x: Rows, copy: int | None) -> Tensor:
        if self.training and self.dropout:
            x = x.with_dropout(self.dropout)
        if copy is not None:
            x = replace(x, index=x.index + copy * self.n_inputs)
        elif self.copies > 1:
            rows_of_each = len(x) // self.copies
            x = replace(x, index=x.index + x.row_of_value // rows_of_each * self.n_inputs)
        if self.training and self.row_optimiser is not None:
            self.row_optimiser.refresh(self.first_weight, x.index)
            sums = row_sum_with_row_gradient(x, self.first_weight)
        else:
            sums = row_sum(x, self.first_weight)
        return sums.view(1 if copy is not None else self.copies, -1, sums.shape[-1])


def _uniform(*shape: int, fan_in: int) -> nn.Parameter:
    """Initialise as `torch.nn.Linear` does."""
    bound = fan_in**-0.5
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
