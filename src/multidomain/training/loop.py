"""The training loop of all methods that learn by gradient descent."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field

import numpy as np
from torch import Tensor

from multidomain.errors import ModelError, Note, TrainingError
from multidomain.methods.data import TrainingData
from multidomain.methods.divergence import Divergence, check_losses, check_weights, not_finite
from multidomain.methods.gradient import GradientMethod
from multidomain.methods.history import Epoch, History
from multidomain.metrics import Metric, accuracy, by_domain, domain_mean, selection_score
from multidomain.model.prediction import predicted_probabilities
from multidomain.saved import validated
from multidomain.training.callbacks import Callback
from multidomain.training.checkpoint import FROM_THE_START, Checkpoint
from multidomain.training.sampling import labelled_stream, text_stream
from multidomain.training.settings import TrainingSettings
from multidomain.training.signals import HeldSignal, held_signals


@dataclass
class Position:
    """The position of a run; with weights, optimisers and random states, its complete state."""

    epoch: int = 0  # completed epochs
    iteration: int = 0  # completed iterations of the next one
    sums: dict[str, float] = field(default_factory=dict)  # of logged values over these iterations
    seconds: float = 0.0  # spent on them before the last checkpoint
    drawn: tuple[int, int] = (0, 0)  # mini-batches, from X and from U
    best_epoch: int = 0  # from 1; 0: none yet
    history: list[Epoch] = field(default_factory=list)
    usual: dict[str, float] = field(default_factory=dict)  # losses before anything was learnt, or at chance if larger
    recovered: list[str] = field(default_factory=list)  # what happened each time that training diverged


class Trainer:
    """Trains with early stopping on the dev score; keeps the checkpoint with the best one.

    An epoch is ceil(largest labelled domain / batch size) iterations. Ties go to the earlier epoch. Without a dev set
    all epochs are run and the last weights are kept.

    Training stops if it diverges: losses are checked after each step, weights and dev predictions after each epoch (see
    `multidomain.methods.divergence`). With `recover` in the settings it goes back to the best weights so far, starts
    the epoch again with new optimisers and half the learning rate, and tells the user. Weights that are not finite are
    neither kept nor written to a checkpoint.

    Parameters
    ----------
    metric
        Of the dev score.
    checkpoint
        Where the run's state is saved; if it exists, the run resumes from it. The weights at the
        end are the same, bit for bit, whether a run was interrupted or not.
    on_note
        Called with notes for the user.
    """

    def __init__(
        self,
        method: GradientMethod,
        data: TrainingData,
        settings: TrainingSettings,
        *,
        metric: Metric = "accuracy",
        checkpoint: Checkpoint | None = None,
        callbacks: Sequence[Callback] = (),
        on_note: Callable[[Note], None] = lambda note: None,
    ):
        self._method = method
        self._data = data
        self._settings = settings
        self._metric = metric
        self._checkpoint = checkpoint
        self._callbacks = callbacks
        self._on_note = on_note
        device = method.device
        self._X = labelled_stream(data, settings.batch_size, settings.seed, settings.balanced, device)
        self._U = text_stream(data, settings.batch_size, settings.seed, device)
        self._iterations = math.ceil(np.bincount(data.labelled.d).max() / settings.batch_size)

    def run(self) -> History:
        """Train from scratch or from the checkpoint, and load the best weights into the method."""
        self._method.clip_norm = self._settings.clip_norm
        self._method.start_training()
        self._at, self._best = Position(), _copy(self._method)
        self._restore()
        self._lower_learning_rates()
        at = self._at
        self._began = self._saved = time.monotonic()
        for callback in self._callbacks:
            callback.on_train_begin(self._settings.max_epochs, self._iterations, at.history)
        try:
            for message in at.recovered:  # before the checkpoint
                self._on_note(Note(message, kind="recovered"))
            while not self._is_over():
                # A run that can be resumed is stopped between two steps, when all of its state can be saved.
                with held_signals() if self._checkpoint else nullcontext(HeldSignal()) as self._held:
                    self._run_epochs()
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

    def _run_epochs(self) -> None:
        """Run epochs until training is over, or a signal has come and the state is saved."""
        while not self._is_over():
            try:
                self._run_epoch()
            except Divergence as divergence:
                self._recover(divergence)
            if self._held.number is not None:
                self._save()
                return
            self._save_if_due()

    def _run_epoch(self) -> None:
        """Run the rest of an epoch, or until a signal comes; raise a `Divergence` if training diverges in it."""
        self._method.train()
        while self._at.iteration < self._iterations:
            self._step()
            if self._held.number is not None:
                return
            self._save_if_due()
        self._end_epoch()

    def _step(self) -> None:
        at, i = self._at, self._at.iteration
        self._method.before_step(at.epoch * self._iterations + i, self._settings.max_epochs * self._iterations)
        at.iteration += 1
        log = {k: float(v) for k, v in self._method.step(self._X, self._U, at.epoch, i).items()}
        usual = at.usual or {k: max(v, log.get(k, v)) for k, v in self._method.losses_at_chance().items()}
        check_losses(log, usual, self._method)
        at.usual = usual
        at.sums = {name: at.sums.get(name, 0.0) + value for name, value in log.items()}
        for callback in self._callbacks:
            callback.on_step_end(at.epoch + 1, at.iteration, self._means())

    def _end_epoch(self) -> None:
        at = self._at
        self._method.flush()
        check_weights(self._method)
        accuracies, score = self._dev_scores()
        mean = domain_mean(accuracies.values()) if accuracies else None
        now = time.monotonic()
        epoch = Epoch(at.epoch + 1, self._means(), mean, accuracies, at.seconds + now - self._began, score)
        best_so_far = at.history[at.best_epoch - 1].dev_score if at.best_epoch else None
        is_best = score is None or best_so_far is None or score > best_so_far
        at.history.append(epoch)
        at.epoch, at.iteration, at.sums, at.seconds, self._began = epoch.epoch, 0, {}, 0.0, now
        if is_best:
            at.best_epoch, self._best = epoch.epoch, _copy(self._method)
        for callback in self._callbacks:
            callback.on_epoch_end(epoch, is_best)

    def _dev_scores(self) -> tuple[dict[str, float], float | None]:
        """Return the accuracy in each domain, and the score that selects."""
        dev, domains = self._data.dev, self._data.task.domains
        if not len(dev):
            return {}, None
        assert dev.y is not None
        probabilities = predicted_probabilities(self._method, dev.x, dev.d)
        if not np.isfinite(probabilities).all():
            raise Divergence("a prediction on the dev set is not finite")
        predicted = probabilities.argmax(axis=1)
        accuracies = by_domain(accuracy, dev.y, predicted, dev.d)
        score = selection_score(self._metric, dev.y, predicted, dev.d)
        return {domains[d]: accuracies[d] for d in sorted(accuracies)}, score

    def _means(self) -> dict[str, float]:
        return {name: total / self._at.iteration for name, total in self._at.sums.items()}

    def _save_if_due(self) -> None:
        if time.monotonic() - self._saved >= self._settings.checkpoint_seconds:
            self._save()

    def _save(self) -> None:
        """Write a checkpoint, unless weights are not finite: the next check says so, and the last good one stays."""
        if self._checkpoint is None or not_finite(self._method.state_dict().items()):
            return
        at, now = self._at, time.monotonic()
        at.drawn = (self._X.drawn, self._U.drawn)
        at.seconds, self._began = at.seconds + now - self._began, now
        self._checkpoint.save(self._method, self._best, asdict(at))
        self._saved = time.monotonic()

    def _recover(self, divergence: Divergence) -> None:
        """Go back to the best weights so far, with half the learning rate, as often as the settings allow."""
        at = self._at
        what = f"{divergence} in iteration {at.iteration} of epoch {at.epoch + 1}"
        if len(at.recovered) >= self._settings.recover:
            raise TrainingError(f"Training has diverged: {what}.", _what_to_try(self._settings)) from None
        back_to = f"the weights of epoch {at.best_epoch}" if at.best_epoch else "the initial weights"
        share = 2 ** (len(at.recovered) + 1)
        at.recovered.append(
            f"Training diverged: {what}. It went back to {back_to}, and on with 1/{share} of the learning rate."
        )
        at.iteration, at.sums = 0, {}
        self._method.end_training()
        self._method.load_state_dict(self._best)
        self._method.start_training()
        self._lower_learning_rates()
        self._on_note(Note(at.recovered[-1], kind="recovered"))

    def _lower_learning_rates(self) -> None:
        for optimiser in self._method.optimisers.values():
            for group in optimiser.param_groups:
                for rate in group.keys() & {"lr", "base_lr"}:  # the second: of a schedule
                    group[rate] *= 0.5 ** len(self._at.recovered)

    def _restore(self) -> None:
        restored = self._checkpoint.restore(self._method) if self._checkpoint else None
        if restored:
            assert self._checkpoint is not None
            self._best, position = restored
            at = validated(position, Position, self._checkpoint.path, FROM_THE_START)
            is_within = 0 <= at.best_epoch <= at.epoch == len(at.history) and 0 <= at.iteration <= self._iterations
            if not is_within or min(at.drawn) < 0:
                raise ModelError(f"{self._checkpoint.path} is at a position that no run can have.", FROM_THE_START)
            self._at = at
            self._X.drawn, self._U.drawn = at.drawn


def _what_to_try(settings: TrainingSettings) -> str:
    """Return the hint of training that has diverged; it leaves out what these settings do already."""
    hints = ["Lower the learning rate ({settings.lr=RATE})"]
    if settings.clip_norm is None:
        hints.append("clip gradients ({clip_norm=1})")
    if not settings.recover:
        hints.append("let training go back and halve the learning rate by itself ({recover=3})")
    return f"{', or '.join(hints)}."


def _copy(method: GradientMethod) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in method.state_dict().items()}
