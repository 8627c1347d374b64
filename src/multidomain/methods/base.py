"""What a method is: a network that predicts, and one iteration of its training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeAlias

from torch import Tensor, nn
from torch.optim import Optimizer

from multidomain.errors import ConfigError, DataError, quoted
from multidomain.nn.sparse import SparseBatch
from multidomain.settings import Settings

if TYPE_CHECKING:
    from multidomain.methods.data import TrainingData

Tried: TypeAlias = Callable[[Mapping[str, Any], float | None], None]


@dataclass(frozen=True)
class Task:
    """What is to be learnt, as far as a method's shape depends on it.

    Attributes
    ----------
    n_inputs
        Width of the features.
    n_classes
        Number of classes.
    domains
        Names of all N domains (Delta); a domain's code is its place here.
    labelled
        Codes of the domains with labelled training rows (Delta_L), ascending.
    """

    n_inputs: int
    n_classes: int
    domains: tuple[str, ...]
    labelled: tuple[int, ...]

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the task that `dataclasses.asdict` gave these values of, lists and all."""
        return cls(**{**values, "domains": tuple(values["domains"]), "labelled": tuple(values["labelled"])})

    def check_labels_everywhere(self) -> None:
        """Refuse a domain without labels, for models that learn each domain from its own."""
        without = [name for d, name in enumerate(self.domains) if d not in self.labelled]
        if without:
            raise ConfigError(
                f"A domain-specific model learns each domain from its own labels, and {quoted(without)} "
                "has none. Leave it out, or use another category, such as 'shared'."
            )

    def unknown_domain(self) -> DataError:
        """Return the error of a domain-specific model that is asked about a domain it does not know."""
        return DataError(
            "A domain-specific model knows nothing about a domain that was not in its training data, "
            f"only about {quoted(self.domains)}. Name one of these, or train shared features."
        )


@dataclass(frozen=True)
class Batch:
    """Mini-batches of several domains at once, B rows of each, ordered by domain.

    `y` has the shape (domains, B); it is None where labels are not to be seen.
    """

    x: SparseBatch
    y: Tensor | None = None


class Stream(Protocol):
    """Endless mini-batches."""

    def sample(self, times: int = 1) -> Batch:
        """Draw `times` mini-batches of each domain; rows are ordered by draw, then by domain."""
        ...


class Method(nn.Module, ABC):
    """A model of several domains, which says what it predicts (`logits`).

    How it learns is the subclasses' matter: `GradientMethod` step by step, `FittedMethod` at once.
    """

    settings_type: ClassVar[type[Settings]]

    def __init__(self, task: Task, settings: Settings):
        super().__init__()
        self.task = task
        self.settings = settings

    @abstractmethod
    def logits(self, x: SparseBatch, d: int | None) -> Tensor:
        """Return class logits, shape (rows, classes), of rows that all belong to domain `d`.

        None stands for a domain that was not in training.
        """

    def logits_of_views(self, shared: SparseBatch, private: SparseBatch, d: int | None) -> Tensor:
        """Return class logits if the shared part reads some rows, and the private part of `d` others in their place.

        Prediction reads the same in both. To explain an answer, a word is left out of one of them. A method without a
        private part reads the first.
        """
        return self.logits(shared, d)

    def shared_features(self, x: SparseBatch) -> Tensor | None:
        """Return the shared features, shape (rows, size), or None if the method has none."""
        return None

    def private_features(self, x: SparseBatch, d: int) -> Tensor | None:
        """Return the private features of rows of domain `d`, shape (rows, size), or None if it has none."""
        return None


class GradientMethod(Method):
    """A network and the update that trains it.

    A subclass says how one iteration goes (`step`). Devices, endless streams, logging, early stopping and
    checkpoints are the training loop's.
    """

    optimisers: dict[str, Optimizer]

    def __init__(self, task: Task, settings: Settings):
        super().__init__(task, settings)
        self.optimisers = {}

    @abstractmethod
    def start_training(self) -> None:
        """Make the optimisers; a model that only predicts never pays for them."""

    @abstractmethod
    def step(self, X: Stream, U: Stream, epoch: int, i: int) -> dict[str, Tensor]:
        """Do iteration `i` of `epoch` (both from 0) and return what to log.

        Parameters
        ----------
        X
            Labelled mini-batches of the labelled domains.
        U
            Mini-batches of text of all domains, without labels.
        """

    def end_training(self) -> None:
        """Let go of the optimisers, which are twice the size of the weights, and of gradients."""
        for optimiser in self.optimisers.values():
            optimiser.zero_grad()
        self.optimisers = {}

    def settle(self) -> None:
        """Bring all weights up to date, where an optimiser leaves some for later."""
        for optimiser in self.optimisers.values():
            if hasattr(optimiser, "settle"):
                optimiser.settle()


class FittedMethod(Method):
    """A model that is fitted to all rows at once, by a solver or in closed form. No randomness is involved."""

    @abstractmethod
    def fit(self, data: TrainingData, tried: Tried) -> dict[str, Any]:
        """Fit to the labelled rows; return the values that were chosen on the development rows.

        Parameters
        ----------
        tried
            Is told each set of values that was tried, and its development accuracy.
        """
