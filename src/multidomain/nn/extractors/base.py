"""What every feature extractor is: several copies of one shape, and a large table of which a batch reads few rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from multidomain.nn.dropout import dropout
from multidomain.nn.sparse import SparseBatch

if TYPE_CHECKING:
    from multidomain.nn.kernels.row_adam import RowAdam


class Extractor(nn.Module, ABC):
    """From documents to feature vectors; F_s is one copy, the F_d of all labelled domains are a copy each.

    Copy `c` owns rows ``c * n_inputs`` to ``(c + 1) * n_inputs`` of the table.
    """

    def __init__(self, copies: int, n_inputs: int):
        super().__init__()
        self.copies = copies
        self.n_inputs = n_inputs
        self.row_optimiser: RowAdam | None = None  # updates the table, if there is one for it alone

    @property
    @abstractmethod
    def table(self) -> nn.Parameter:
        """Return the first layer's rows: of weights, or word vectors."""

    @abstractmethod
    def forward(self, x: SparseBatch, copy: int | None = None) -> Tensor:
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

    def _in_table(self, x: SparseBatch, copy: int | None) -> SparseBatch:
        """Return the rows with their columns as rows of the table, brought up to date if training may need that."""
        if copy is not None:
            x = replace(x, index=x.index + copy * self.n_inputs)
        elif self.copies > 1:
            rows_of_each = len(x) // self.copies
            x = replace(x, index=x.index + x.row_of_value // rows_of_each * self.n_inputs)
        if self.training and self.row_optimiser is not None:
            self.row_optimiser.refresh(self.table, x.index)
        return x

    @property
    def _learns_by_rows(self) -> bool:
        return self.training and self.row_optimiser is not None


class WordExtractor(Extractor):
    """Base of extractors that read words in their order: word vectors of each copy, and at the end a linear layer.

    Parameters
    ----------
    copies
        How many independent networks.
    n_inputs, dimension
        Words, and the length of their vectors.
    width, n_outputs
        Inputs and outputs of the linear layer.
    dropout
        Probability of dropping an input of the linear layer.
    """

    def __init__(self, copies: int, n_inputs: int, dimension: int, width: int, n_outputs: int, dropout: float):
        super().__init__(copies, n_inputs)
        self.dropout = dropout
        self.vectors = nn.Parameter(torch.randn(copies * n_inputs, dimension) * dimension**-0.5)
        self.weight = uniform(copies, width, n_outputs, fan_in=width)
        self.bias = uniform(copies, 1, n_outputs, fan_in=width)

    @property
    def table(self) -> nn.Parameter:
        return self.vectors

    def _features(self, h: Tensor, copy: int | None) -> Tensor:
        """Dropout, the linear layer and ReLU, on a batch of shape (copies, rows of each, width)."""
        h = dropout(h, self.dropout, self.training)
        return torch.baddbmm(of_copy(self.bias, copy), h, of_copy(self.weight, copy)).relu()


def of_copy(parameter: Tensor, copy: int | None) -> Tensor:
    """Return the part of a parameter that belongs to one copy, or all of it."""
    return parameter if copy is None else parameter[copy : copy + 1]


def uniform(*shape: int, fan_in: int) -> nn.Parameter:
    """Initialise as `torch.nn.Linear` does."""
    bound = fan_in**-0.5
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
