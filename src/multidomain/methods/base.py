"""The contract of a method: a model of several domains that can be fitted, and its requirements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike
from scipy.sparse import csr_matrix

from multidomain.errors import ConfigError, DataError, Note, quoted
from multidomain.methods.data import TrainingData
from multidomain.methods.history import History
from multidomain.methods.linear_form import LinearForm
from multidomain.methods.task import Task
from multidomain.metrics import Metric
from multidomain.settings import Settings


@dataclass(frozen=True)
class Requirements:
    """What a method with given settings needs and can do. Callers check this, not its type.

    Attributes
    ----------
    featurizer, features
        Name of its featurizer, and the method's defaults for the featurizer's settings. None: its members decide.
    devices
        Kinds of devices it runs on (cpu, cuda, mps); empty for all.
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
    any_size
        It reads rows from disk, a block at a time: they need not fit into memory.
    members
        Members of an ensemble, each with a `method` and its `settings`, or with the `folder` of a saved model.
    prunable
        It can do with fewer columns, see `Method.pruned`.
    linear
        It is a sum over words, see `Method.linear_form`.
    several_processes
        Several processes can train it together, each on its share of every mini-batch; see `docs/distributed.md`.
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
    any_size: bool = False
    members: tuple[Any, ...] = ()
    prunable: bool = False
    linear: bool = False
    several_processes: bool = False


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

    def run_epochs(self, method: Any, data: TrainingData) -> History:
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

    def run_epochs(self, method: Any, data: TrainingData) -> History:
        return self._context.run_epochs(method, data)


class ArraySpec(NamedTuple):
    """The shape of an array, None where any size will do, and its type."""

    shape: tuple[int | None, ...]
    dtype: DTypeLike = np.float32

    def fits(self, array: np.ndarray) -> bool:
        """Tell whether an array has this shape and type."""
        sizes = zip(self.shape, array.shape, strict=False)
        return (
            array.ndim == len(self.shape)
            and array.dtype == self.dtype
            and all(wanted in (None, size) for wanted, size in sizes)
        )

    def __str__(self) -> str:
        return f"{np.dtype(self.dtype).name} of shape ({', '.join('any' if n is None else str(n) for n in self.shape)})"


class Method(ABC):
    """A model of several domains: it declares its `requirements`, learns (`fit`) and predicts (`logits`).

    It reads and returns NumPy arrays; a network (`multidomain.methods.gradient`) is a torch module behind this
    contract, and other methods need no torch. Learnt arrays are attributes, declared in `arrays`.

    Attributes
    ----------
    inverse_temperature, class_bias
        Calibration of the logits, of unknown domains first, then of each domain; shapes (1 + domains,) and
        (1 + domains, classes).
    """

    settings_type: ClassVar[type[Settings]]

    def __init__(self, task: Task, settings: Settings):
        self.task = task
        self.settings = settings
        copies = 1 + len(task.domains)
        self.inverse_temperature = np.ones(copies, dtype=np.float32)
        self.class_bias = np.zeros((copies, task.n_classes), dtype=np.float32)

    @classmethod
    def untrained(cls, task: Task, settings: Any) -> Self:
        """Return a method whose weights are about to be loaded: no time or memory is spent on them."""
        return cls(task, settings)

    @classmethod
    def requirements(cls, settings: Any) -> Requirements:
        """Return the requirements of the method with these settings."""
        return Requirements()

    @abstractmethod
    def fit(self, data: TrainingData, context: FitContext) -> History:
        """Learn from the labelled rows and, if supported, from all text."""

    @abstractmethod
    def logits(self, x: csr_matrix, d: int | None) -> np.ndarray:
        """Return class logits, shape (rows, classes), of rows of domain `d`.

        None means a domain that was not in training.
        """

    def logits_of_views(self, shared: csr_matrix, private: csr_matrix, d: int | None) -> np.ndarray:
        """Return class logits where the shared and the private part of `d` read different versions of the rows.

        For prediction both are the same. To explain a prediction, a word is dropped from one of them. A method without
        a private part reads the first.
        """
        return self.logits(shared, d)

    def calibrated_logits(self, x: csr_matrix, d: int | None) -> np.ndarray:
        """Return calibrated class logits: divided by the temperature of the domain, and aligned to its class prior."""
        return self._with_calibration(self.logits(x, d), d)

    def calibrated_logits_of_views(self, shared: csr_matrix, private: csr_matrix, d: int | None) -> np.ndarray:
        """Return `logits_of_views`, calibrated."""
        return self._with_calibration(self.logits_of_views(shared, private, d), d)

    def _with_calibration(self, logits: np.ndarray, d: int | None) -> np.ndarray:
        code = 0 if d is None else 1 + d
        return logits * self.inverse_temperature[code] + self.class_bias[code]

    def arrays(self) -> dict[str, ArraySpec]:
        """Return what the learnt arrays look like, by the names of their attributes."""
        copies = 1 + len(self.task.domains)
        return {"inverse_temperature": ArraySpec((copies,)), "class_bias": ArraySpec((copies, self.task.n_classes))}

    def parts(self) -> Mapping[str, Method]:
        """Return the methods that this one is made of, by the names that their weights are saved under."""
        return {}

    def weights(self) -> dict[str, np.ndarray]:
        """Return everything learnt, by name."""
        own = {name: _attribute(self, name) for name in self.arrays()}
        return own | {f"{part}.{name}": w for part, m in self.parts().items() for name, w in m.weights().items()}

    def load_weights(self, weights: Mapping[str, np.ndarray]) -> None:
        """Set everything learnt; what was saved before there was calibration has none.

        Raises
        ------
        ValueError
            Something is missing, unexpected, or of another shape or type.
        """
        for part, method in self.parts().items():
            method.load_weights(_under(weights, f"{part}."))
        prefixes = tuple(f"{part}." for part in self.parts())
        own = {name: array for name, array in weights.items() if not name.startswith(prefixes)}
        for name in ("inverse_temperature", "class_bias"):
            own.setdefault(name, getattr(self, name))
        check_arrays(own, self.arrays())
        for name, array in own.items():
            *path, last = name.split(".")
            setattr(_attribute(self, ".".join(path)), last, array)

    @property
    def n_weights(self) -> int:
        """Return the number of weights, without calibration."""
        calibration = self.inverse_temperature.size + self.class_bias.size
        return sum(array.size for array in self.weights().values()) - calibration

    def to(self, device: Any) -> Any:
        """Move the method to a device, if it runs on more than one; return it."""
        return self

    def shared_features(self, x: csr_matrix) -> np.ndarray:
        """Return the shared features, shape (rows, size); called if `requirements` promises `shared_features`."""
        raise self._not_kept("shared_features")

    def private_features(self, x: csr_matrix, d: int) -> np.ndarray | None:
        """Return the private features of rows of domain `d`, shape (rows, size), or None if the domain has none."""
        return None

    def use_input_vectors(self, vectors: np.ndarray) -> None:
        """Start from input vectors, shape (n_inputs, dimension); called if `requirements` has an `input_dimension`."""
        raise self._not_kept("input_dimension")

    def pruned(self, size: np.ndarray, share: float) -> tuple[Method, np.ndarray]:
        """Return the method with a share of its weights, those that move logits most, and the columns it still reads.

        Called if `requirements` promises `prunable`.

        Parameters
        ----------
        size
            Root mean square of each column over the training text, shape (columns,).
        """
        raise self._not_kept("prunable")

    def linear_form(self) -> LinearForm:
        """Return what `logits` computes; called if `requirements` promises `linear`."""
        raise self._not_kept("linear")

    @classmethod
    def join(cls, members: Any, starts: Any, n_inputs: int, settings: Any) -> Self:
        """Join trained members into one model; called if `requirements` names `members`."""
        raise cls._not_kept("members")

    @classmethod
    def _not_kept(cls, promise: str) -> NotImplementedError:
        """Return the error of a method that promises something and does not override the function for it."""
        return NotImplementedError(f"{cls.__name__}.requirements promises {promise}, which the class does not have.")


def check_arrays(arrays: Mapping[str, np.ndarray], wanted: Mapping[str, ArraySpec]) -> None:
    """Raise a ValueError if arrays are missing, unexpected, or of another shape or type."""
    for problem, names in (("missing", wanted.keys() - arrays.keys()), ("unexpected", arrays.keys() - wanted.keys())):
        if names:
            raise ValueError(f"{quoted(sorted(names), 4)} {'is' if len(names) == 1 else 'are'} {problem}")
    for name, spec in wanted.items():
        if not spec.fits(arrays[name]):
            found = ArraySpec(arrays[name].shape, arrays[name].dtype)
            raise ValueError(f"'{name}' should be {spec}, and is {found}")


def _attribute(owner: Any, path: str) -> Any:
    for name in path.split(".") if path else ():
        owner = getattr(owner, name)
    return owner


def _under(weights: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in weights.items() if name.startswith(prefix)}


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
