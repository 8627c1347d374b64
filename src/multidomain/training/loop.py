"""The one training loop of all methods that learn by gradient."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
from pydantic import Field
from torch import Tensor

from multidomain.methods.base import GradientMethod
from multidomain.methods.data import TrainingData
from multidomain.model.prediction import accuracy_by_domain
from multidomain.settings import Settings
from multidomain.training.callbacks import Callback, Epoch, History
from multidomain.training.checkpoint import Checkpoint
from multidomain.training.sampling import labelled_stream, text_stream


class TrainingSettings(Settings):
    """How long and on what to train; the defaults are the paper's, where it says."""

    batch_size: int = Field(8, ge=2, description="rows of each domain in a mini-batch")
    max_epochs: int = Field(30, ge=1, description="at most so many")
    patience: int = Field(5, ge=1, description="epochs without a better development accuracy before stopping")
    balanced: bool = Field(False, description="draw the classes of a domain equally often")
    seed: int = Field(0, ge=0, lt=2**32)
    checkpoint_seconds: float = Field(120, ge=0, description="least time between two checkpoints")


@dataclass
class Position:
    """Where a run is; with weights, optimisers and random states this is all there is to it."""

    epoch: int = 0  # epochs that have ended
    iteration: int = 0  # iterations of the next one that have ended
    sums: dict[str, float] = field(default_factory=dict)  # of what was logged in them
    seconds: float = 0.0  # spent on them before the last checkpoint
    drawn: tuple[int, int] = (0, 0)  # mini-batches, from X and from U
    best_epoch: int = 0  # from 1; 0: none yet
    history: list[Epoch] = field(default_factory=list)


class Trainer:
    """Trains until the development accuracy stops rising; the best weights stay.

    An epoch is ceil(largest labelled domain / batch size) iterations. The accuracy that decides is the
    mean over domains of the development rows; among equals the earlier epoch is kept. Without
    development rows all epochs are run and the last weights stay.

    Parameters
    ----------
    checkpoint
        Where the run's state is kept; if it is there already, the run goes on from it. The weights at the
        end are the same, bit for bit, whether a run was interrupted or not.
    """

    def __init__(
        self,
        method: GradientMethod,
        data: TrainingData,
        settings: TrainingSettings,
        *,
        checkpoint: Checkpoint | None = None,
        callbacks: Sequence[Callback] = (),
    ):
        self._method = method
        self._data = data
        self._settings = settings
        self._checkpoint = checkpoint
        self._callbacks = callbacks
        self._X = labelled_stream(data, settings.batch_size, settings.seed, settings.balanced)
        self._U = text_stream(data, settings.batch_size, settings.seed)
        self._iterations = math.ceil(np.bincount(data.labelled.d).max() / settings.batch_size)

    def run(self) -> History:
        """Train from the start or from the checkpoint and leave the best weights in the method."""
        self._method.start_training()
        self._at, self._best = Position(), _copy(self._method)
        self._restore()
        at = self._at
        self._began = self._saved = time.monotonic()
        for callback in self._callbacks:
            callback.on_train_begin(self._settings.max_epochs, self._iterations, at.history)
        try:
            while not self._is_over():
                self._method.train()
                while at.iteration < self._iterations:
                    self._step()
                    self._save_if_due()
                self._end_epoch()
                self._save_if_due()
        finally:
            for callback in self._callbacks:
                callback.on_train_end()
        self._method.load_state_dict(self._best)
        self._method.end_training()
        self._method.eval()
        return History(at.history, at.best_epoch, self._iterations)

    def _is_over(self) -> bool:
        at = self._at
        waited = at.epoch - at.best_epoch if at.best_epoch else 0
        return at.epoch == self._settings.max_epochs or waited >= self._settings.patience

    def _step(self) -> None:
        at = self._at
        log = self._method.step(self._X, self._U, at.epoch, at.iteration)
        at.iteration += 1
        at.sums = {name: at.sums.get(name, 0.0) + float(value) for name, value in log.items()}
        for callback in self._callbacks:
            callback.on_step_end(at.epoch + 1, at.iteration, self._means())

    def _end_epoch(self) -> None:
        at = self._at
        self._method.settle()
        by_domain = accuracy_by_domain(self._method, self._data.dev, self._data.task.domains)
        mean = float(np.mean(list(by_domain.values()))) if by_domain else None
        now = time.monotonic()
        epoch = Epoch(at.epoch + 1, self._means(), mean, by_domain, at.seconds + now - self._began)
        best_so_far = at.history[at.best_epoch - 1].dev_accuracy if at.best_epoch else None
        is_best = mean is None or best_so_far is None or mean > best_so_far
        at.history.append(epoch)
        at.epoch, at.iteration, at.sums, at.seconds, self._began = epoch.epoch, 0, {}, 0.0, now
        if is_best:
            at.best_epoch, self._best = epoch.epoch, _copy(self._method)
        for callback in self._callbacks:
            callback.on_epoch_end(epoch, is_best)

    def _means(self) -> dict[str, float]:
        return {name: total / self._at.iteration for name, total in self._at.sums.items()}

    def _save_if_due(self) -> None:
        now = time.monotonic()
        if self._checkpoint is None or now - self._saved < self._settings.checkpoint_seconds:
            return
        at = self._at
        at.drawn = (self._X.drawn, self._U.drawn)
        at.seconds, self._began = at.seconds + now - self._began, now
        self._checkpoint.save(self._method, self._best, asdict(at))
        self._saved = time.monotonic()

    def _restore(self) -> None:
        restored = self._checkpoint.restore(self._method) if self._checkpoint else None
        if restored:
            self._best, position = restored
            self._at = Position(**{**position, "history": [Epoch(**past) for past in position["history"]]})
            self._X.drawn, self._U.drawn = self._at.drawn


def _copy(method: GradientMethod) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in method.state_dict().items()}
