"""The contract of a method: a model of several domains that can be fitted, and its requirements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from multidomain.errors import ConfigError, DataError, Note, quoted
from multidomain.methods.data import TrainingData
from multidomain.methods.history import History
from multidomain.methods.task import Task
from multidomain.metrics import Metric
from multidomain.nn.sparse import SparseBatch
from multidomain.settings import Settings


@dataclass(frozen=True)
class Requirements:
    """What a method with given settings needs and can do. Callers check this, not its type.

    Attributes
    ----------
    featurizer, features
        Name of its featurizer, and the method's defaults for the featurizer's settings. None: its members decide.
    devices
        Device types it runs on; empty for all that torch supports.
    unlabelled_text
        It learns from unlabelled text.
    in_epochs
        It learns in epochs, so batch size, early stopping and the like have an effect.
    is_random
        The seed has an effect.
    unseen_domains
        It can predict for a domain that was not in training.
    shared_features, private_features
        It has such features, for probes and reports.
    input_dimension
        Dimension of a network's initial input vectors; 0 if it has none.
    calibrated
        Its logits are calibrated already, and aligned to class priors, so no temperature or bias is fitted.
    members
        Members of an ensemble, each with a `method` and its `settings`, or with the `folder` of a saved model.
    """

    featurizer: str | None = "ngrams"
    features: Mapping[str, Any] = field(default_factory=dict)
    devices: tuple[str, ...] = ("cpu",)
    unlabelled_text: bool = False
    in_epochs: bool = False
    is_random: bool = False
    unseen_domains: bool = True
    shared_features: bool = False
    private_features: bool = False
    input_dimension: int = 0
    calibrated: bool = False
    members: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Batch:
    """Mini-batches of several domains at once, B rows per domain, ordered by domain.

    `y` has the shape (domains, B); it is None where labels are hidden. So has `weight`, the weights of the rows; None
    means that all count alike.
    """

    x: SparseBatch
    y: Tensor | None = None
    weight: Tensor | None = None


class Stream(Protocol):
    """Endless mini-batches."""

    def sample(self, times: int = 1) -> Batch:
        """Draw `times` mini-batches per domain; rows are ordered by draw, then by domain."""
        ...


class FitContext:
    """The context in which a method is fitted. This one does nothing; the training loop has its own.

    Attributes
    ----------
    metric
        What to select on the dev set by; see `multidomain.methods.selection.dev_score`.
    """

    metric: Metric = "accuracy"

    def report(self, values: Mapping[str, Any], dev_score: float | None) -> None:
        """Report the hyperparameters of a candidate and its dev score."""

    def note(self, note: Note) -> None:
        """Pass a note on to the user."""

    def run_epochs(self, method: GradientMethod, data: TrainingData) -> History:
        """Train a network in epochs, with early stopping and checkpoints."""
        raise NotImplementedError("A network is trained by train_model, whose context has the training loop.")

    def with_values(self, **values: Any) -> FitContext:
        """Return a context that adds some values, such as the round, to its reports."""
        return _WithValues(self, values)


class _WithValues(FitContext):
    def __init__(self, context: FitContext, values: Mapping[str, Any]):
        self._context = context
        self._values = values
        self.metric = context.metric

    def report(self, values: Mapping[str, Any], dev_score: float | None) -> None:
        self._context.report({**self._values, **values}, dev_score)

    def note(self, note: Note) -> None:
        self._context.note(note)

    def run_epochs(self, method: GradientMethod, data: TrainingData) -> History:
        return self._context.run_epochs(method, data)


class Method(nn.Module, ABC):
    """A model of several domains: it declares its `requirements`, learns (`fit`) and predicts (`logits`)."""

    settings_type: ClassVar[type[Settings]]
    inverse_temperature: Tensor
    class_bias: Tensor

    def __init__(self, task: Task, settings: Settings):
        super().__init__()
        self.task = task
        self.settings = settings
        # Of unknown domains first, then of each domain.
        for name, value in self._uncalibrated().items():
            self.register_buffer(name, value)

    @classmethod
    def requirements(cls, settings: Any) -> Requirements:
        """Return the requirements of the method with these settings."""
        return Requirements()

    @abstractmethod
    def fit(self, data: TrainingData, context: FitContext) -> History:
        """Learn from the labelled rows and, if supported, from all text."""

    @abstractmethod
    def logits(self, x: SparseBatch, d: int | None) -> Tensor:
        """Return class logits, shape (rows, classes), of rows of domain `d`.

        None means a domain that was not in training.
        """

    def calibrated_logits(self, x: SparseBatch, d: int | None) -> Tensor:
        """Return calibrated class logits: divided by the temperature of the domain, and aligned to its class prior."""
        return self._with_calibration(self.logits(x, d), d)

    def calibrated_logits_of_views(self, shared: SparseBatch, private: SparseBatch, d: int | None) -> Tensor:
        """Return `logits_of_views`, calibrated."""
        return self._with_calibration(self.logits_of_views(shared, private, d), d)

    def _with_calibration(self, logits: Tensor, d: int | None) -> Tensor:
        code = 0 if d is None else 1 + d
        return logits * self.inverse_temperature[code] + self.class_bias[code]

    def _uncalibrated(self) -> dict[str, Tensor]:
        copies = 1 + len(self.task.domains)
        return {"inverse_temperature": torch.ones(copies), "class_bias": torch.zeros(copies, self.task.n_classes)}

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *others: Any) -> None:
        """Load weights; those saved before there were temperatures or biases of domains have none."""
        for name, value in self._uncalibrated().items():
            state_dict.setdefault(f"{prefix}{name}", value)
        super()._load_from_state_dict(state_dict, prefix, *others)

    def logits_of_views(self, shared: SparseBatch, private: SparseBatch, d: int | None) -> Tensor:
        """Return class logits where the shared and the private part of `d` read different versions of the rows.

        For prediction both are the same. To explain a prediction, a word is dropped from one of them. A method without
        a private part reads the first.
        """
        return self.logits(shared, d)

    def shared_features(self, x: SparseBatch) -> Tensor:
        """Return the shared features, shape (rows, size); called if `requirements` promises `shared_features`."""
        raise self._not_kept("shared_features")

    def private_features(self, x: SparseBatch, d: int) -> Tensor | None:
        """Return the private features of rows of domain `d`, shape (rows, size), or None if the domain has none."""
        return None

    def use_input_vectors(self, vectors: Tensor) -> None:
        """Start from input vectors, shape (n_inputs, dimension); called if `requirements` has an `input_dimension`."""
        raise self._not_kept("input_dimension")

    @classmethod
    def join(cls, members: Any, starts: Any, n_inputs: int) -> Self:
        """Join trained members into one model; called if `requirements` names `members`."""
        raise cls._not_kept("members")

    @classmethod
    def _not_kept(cls, promise: str) -> NotImplementedError:
        """Return the error of a method that promises something and does not override the function for it."""
        return NotImplementedError(f"{cls.__name__}.requirements promises {promise}, which the class does not have.")


class GradientMethod(Method):
    """A network and the update that trains it.

    A subclass defines one iteration (`step`). The training loop handles devices, streams, logging, early
    stopping and checkpoints.
    """

    optimisers: dict[str, Optimizer]

    def __init__(self, task: Task, settings: Settings):
        super().__init__(task, settings)
        self.optimisers = {}
        self.clip_norm: float | None = None  # the largest norm of a step's gradient, which `step` has to keep to

    def fit(self, data: TrainingData, context: FitContext) -> History:
        return context.run_epochs(self, data)

    @abstractmethod
    def start_training(self) -> None:
        """Create the optimisers, which prediction does not need."""

    @abstractmethod
    def step(self, X: Stream, U: Stream, epoch: int, i: int) -> dict[str, Tensor]:
        """Do iteration `i` of `epoch` (both from 0) and return what to log.

        Parameters
        ----------
        X
            Labelled mini-batches of the labelled domains.
        U
            Unlabelled mini-batches of all domains.
        """

    def losses_at_chance(self) -> dict[str, float]:
        """Return the cross-entropies among the logged values, as they are for uniform predictions.

        Training stops if one of them explodes; see `multidomain.methods.divergence`. By default there are none.
        """
        return {}

    def end_training(self) -> None:
        """Free the optimisers, which are twice the size of the weights, and the gradients."""
        for optimiser in self.optimisers.values():
            optimiser.zero_grad()
        self.optimisers = {}

    def flush(self) -> None:
        """Bring all weights up to date, if an optimiser defers updates."""
        for optimiser in self.optimisers.values():
            if hasattr(optimiser, "flush"):
                optimiser.flush()


def check_labels_everywhere(task: Task) -> None:
    """Reject domains without labels, for domain-specific models."""
    without = [name for d, name in enumerate(task.domains) if d not in task.labelled]
    if without:
        raise ConfigError(
            f"A domain-specific model learns each domain from its own labels, and {quoted(without)} has none.",
            "Drop the domain, or use another category, such as {settings.category=shared}.",
        )


def unseen_domain_error(task: Task) -> DataError:
    """Return the error of a domain-specific model for an unknown domain."""
    return DataError(
        "A domain-specific model knows nothing about a domain that was not in its training data, "
        f"only about {quoted(task.domains)}.",
        "Name one of these, or train shared features.",
    )
