"""Networks: methods that are torch modules and learn by gradient descent."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor, nn
from torch.optim import Optimizer

from multidomain.methods.base import ArraySpec, FitContext, Method, check_arrays
from multidomain.methods.data import TrainingData
from multidomain.methods.history import History
from multidomain.methods.task import Task
from multidomain.nn.sparse import SparseBatch, SparseMatrix
from multidomain.settings import Settings

_CALIBRATION = ("inverse_temperature", "class_bias")
_NUMPY_TYPES: dict[torch.dtype, Any] = {
    torch.float32: np.float32,
    torch.float64: np.float64,
    torch.int64: np.int64,
    torch.int32: np.int32,
    torch.bool: np.bool_,
}


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


class GradientMethod(nn.Module, Method):
    """A network and the update that trains it.

    A subclass defines one iteration (`step`) and what a sparse batch gives (`batch_logits`, ...). The training loop
    handles devices, streams, logging, early stopping and checkpoints.
    """

    optimisers: dict[str, Optimizer]

    def __init__(self, task: Task, settings: Settings):
        nn.Module.__init__(self)
        Method.__init__(self, task, settings)
        self.optimisers = {}
        self.clip_norm: float | None = None  # the largest norm of a step's gradient, which `step` has to keep to

    @classmethod
    def untrained(cls, task: Task, settings: Any) -> Self:
        with torch.device("meta"):
            return cls(task, settings)

    @property
    def device(self) -> torch.device:
        """Return the device that the network is on."""
        return next(self.parameters()).device

    @property
    def rows_at_a_time(self) -> int:
        """Return how many rows are predicted together, which bounds the memory for hidden layers."""
        return 1024

    def fit(self, data: TrainingData, context: FitContext) -> History:
        return context.run_epochs(self, data)

    @abstractmethod
    def batch_logits(self, x: SparseBatch, d: int | None) -> Tensor:
        """Return `logits` of a batch."""

    def batch_logits_of_views(self, shared: SparseBatch, private: SparseBatch, d: int | None) -> Tensor:
        """Return `logits_of_views` of a batch."""
        return self.batch_logits(shared, d)

    def batch_shared_features(self, x: SparseBatch) -> Tensor:
        """Return `shared_features` of a batch."""
        raise self._not_kept("shared_features")

    def batch_private_features(self, x: SparseBatch, d: int) -> Tensor | None:
        """Return `private_features` of a batch."""
        return None

    def logits(self, x: csr_matrix, d: int | None) -> np.ndarray:
        return self._in_batches(lambda batch: self.batch_logits(batch, d), x)

    def logits_of_views(self, shared: csr_matrix, private: csr_matrix, d: int | None) -> np.ndarray:
        return self._in_batches(lambda own, other: self.batch_logits_of_views(own, other, d), shared, private)

    def shared_features(self, x: csr_matrix) -> np.ndarray:
        return self._in_batches(self.batch_shared_features, x)

    def private_features(self, x: csr_matrix, d: int) -> np.ndarray | None:
        return self._in_batches(lambda batch: self.batch_private_features(batch, d), x)

    def _in_batches(self, function: Callable[..., Tensor | None], *views: csr_matrix) -> Any:
        """Return what a function of batches gives for all rows, or None; it reads one view of them or several."""
        self.eval()
        matrices = [SparseMatrix(view, self.device) for view in views]
        chunks = []
        with torch.inference_mode():
            for start in range(0, max(len(matrices[0]), 1), self.rows_at_a_time):
                rows = np.arange(start, min(start + self.rows_at_a_time, len(matrices[0])))
                chunk = function(*(matrix.take(rows) for matrix in matrices))
                if chunk is None:
                    return None
                chunks.append(chunk.cpu().numpy())
        return np.concatenate(chunks)

    def weights(self) -> dict[str, np.ndarray]:
        of_module = {name: value.detach().cpu().numpy() for name, value in self.state_dict().items()}
        return of_module | {name: getattr(self, name) for name in _CALIBRATION}

    def load_weights(self, weights: Mapping[str, np.ndarray]) -> None:
        weights = dict(weights)
        calibration = {name: weights.pop(name) for name in _CALIBRATION if name in weights}
        Method.load_weights(self, calibration)
        wanted = {
            name: ArraySpec(tuple(value.shape), _NUMPY_TYPES[value.dtype]) for name, value in self.state_dict().items()
        }
        check_arrays(weights, wanted)
        self.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()}, assign=True)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        """Load weights of a checkpoint; those of earlier versions hold the calibration, which training does not use."""
        for name in _CALIBRATION:
            state_dict.pop(f"{prefix}{name}", None)
        super()._load_from_state_dict(state_dict, prefix, *others)

    @property
    def n_weights(self) -> int:
        return sum(p.numel() for p in self.parameters())

    @abstractmethod
    def start_training(self) -> None:
        """Create the optimisers, which prediction does not need."""

    def before_step(self, step: int, steps: int) -> None:
        """Called before each iteration with its number, counted from 0, and that of all if none is left out.

        What changes in the course of training, such as a learning rate, is to be a function of these: then a run that
        is resumed goes on as if it had not stopped.
        """

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
