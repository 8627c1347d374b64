"""Base of feature extractors: several copies of one network, and a large table of which a batch reads few rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self, TypeVar

import torch
from torch import Tensor, nn

from multidomain.nn.dropout import dropout
from multidomain.nn.sparse import SparseBatch
from multidomain.registry import Registry


class RowOptimiser(Protocol):
    """An optimiser that defers row updates until the rows are read or have a gradient."""

    def refresh(self, p: Tensor, rows: Tensor) -> None:
        """Bring some rows of a parameter up to date."""
        ...

    def row_sum(self, x: SparseBatch, p: Tensor, copies: int = 1, dropout: float = 0.0) -> Tensor:
        """Return the product of a batch and a parameter that is up to date; its gradient is a `RowGradient`."""
        ...


class Extractor(nn.Module, ABC):
    """From documents to feature vectors; F_s is a single copy, F_d has one copy per labelled domain.

    Copy `c` owns rows ``c * n_inputs`` to ``(c + 1) * n_inputs`` of the table, if there is one.

    Attributes
    ----------
    featurizer
        Name of the featurizer whose rows it reads.
    devices
        Kinds of devices it runs on (cpu, cuda, mps); empty for all.
    several_processes
        Whether torchrun can train networks that have it.
    """

    featurizer: ClassVar[str] = "sequences"
    devices: ClassVar[tuple[str, ...]] = ()
    several_processes: ClassVar[bool] = True

    def __init__(self, copies: int, n_inputs: int):
        super().__init__()
        self.copies = copies
        self.n_inputs = n_inputs
        self.row_optimiser: RowOptimiser | None = None  # updates the table, if it has an optimiser of its own

    @classmethod
    @abstractmethod
    def from_settings(cls, settings: Any, copies: int, n_inputs: int, n_outputs: int, **options: Any) -> Self:
        """Return an extractor with the sizes from a method's settings.

        Parameters
        ----------
        options
            The options the extractor was registered with.
        """

    @property
    def table(self) -> nn.Parameter | None:
        """Return the rows of the first layer: weights or word vectors; None if there is no such layer."""
        return None

    @abstractmethod
    def forward(self, x: Any, copy: int | None = None) -> Tensor:
        """Extract features.

        Parameters
        ----------
        x
            The same number of rows for each copy, copy 0 first; or any rows for a single `copy`. They are a
            `SparseBatch`, or what the network's trunk has read.
        copy
            Run only this copy.

        Returns
        -------
        Tensor
            Shape (copies, rows per copy, n_outputs); the first dimension is 1 if `copy` is given.
        """

    def _in_table(self, x: SparseBatch, copy: int | None) -> SparseBatch:
        """Return the batch with columns mapped to table rows."""
        if copy is not None:
            return replace(x, index=x.index + copy * self.n_inputs)
        if self.copies > 1:
            rows_of_each = len(x) // self.copies
            return replace(x, index=x.index + x.row_of_value // rows_of_each * self.n_inputs)
        return x

    @property
    def _learning(self) -> RowOptimiser | None:
        """Return the optimiser of the table, in training."""
        return self.row_optimiser if self.training else None


WORD_SETTINGS = ("dimension", "tune_vectors")
"""Settings of all extractors that read token sequences."""


class WordExtractor(Extractor):
    """Base of extractors that read token sequences: word vectors per copy, and a final linear layer.

    Parameters
    ----------
    copies
        Number of independent networks.
    n_inputs, dimension
        Vocabulary size, and word vector dimension.
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
        """Dropout, the linear layer and ReLU, on a batch of shape (copies, rows per copy, width)."""
        h = dropout(h, self.dropout, self.training)
        return torch.baddbmm(of_copy(self.bias, copy), h, of_copy(self.weight, copy)).relu()


def of_copy(parameter: Tensor, copy: int | None) -> Tensor:
    """Return the slice of a parameter for one copy, or all of it."""
    return parameter if copy is None else parameter[copy : copy + 1]


def uniform(*shape: int, fan_in: int) -> nn.Parameter:
    """Initialise as `torch.nn.Linear` does."""
    bound = fan_in**-0.5
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))


@dataclass(frozen=True)
class ExtractorEntry:
    """A registered extractor.

    Attributes
    ----------
    uses
        Settings of the method that affect it.
    defaults
        Settings of the method whose default is another with this extractor.
    options
        Further arguments to `from_settings`.
    """

    name: str
    summary: str
    extractor: type[Extractor]
    uses: tuple[str, ...]
    defaults: Mapping[str, Any]
    options: dict[str, Any]


Extractors = TypeVar("Extractors", bound=type[Extractor])

EXTRACTORS: Registry[ExtractorEntry] = Registry("extractor", __package__, "multidomain.extractors")


def register(
    name: str, summary: str, *, uses: tuple[str, ...] = (), defaults: Mapping[str, Any] | None = None, **options: Any
) -> Callable[[Extractors], Extractors]:
    """Register an extractor under a name; decorates its class. See `ExtractorEntry`."""

    def registered(extractor: Extractors) -> Extractors:
        EXTRACTORS.add(name, ExtractorEntry(name, summary, extractor, uses, defaults or {}, options))
        return extractor

    return registered
