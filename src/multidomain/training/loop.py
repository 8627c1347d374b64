"""The training loop of all methods that learn by gradient descent."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from multidomain.errors import ModelError, Note, TrainingError
from multidomain.methods.data import TrainingData
from multidomain.methods.divergence import Divergence, check_losses, check_weights, not_finite
from multidomain.methods.gradient import GradientMethod
from multidomain.methods.history import Epoch, History
from multidomain.metrics import Metric, accuracy, by_domain, domain_mean, selection_score
from multidomain.model.prediction import predicted_probabilities
from multidomain.nn.collectives import are_joined, from_first, share, share_weights, training_step, values_of_all
from multidomain.nn.encoders.optimiser import BASE_RATE
from multidomain.saved import validated
from multidomain.training.callbacks import Callback
from multidomain.training.checkpoint import FROM_THE_START, Checkpoint
from multidomain.training.sampling import labelled_stream, text_stream
from multidomain.training.settings import TrainingSettings
from multidomain.training.signals import HeldSignal, held_signals
from multidomain.training.step_log import StepLog


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
    spent: tuple[float, float] = (0.0, 0.0)  # seconds of training, on the clock and of CPU, before the last checkpoint


class Trainer:
    """Trains with early stopping on the dev score; keeps the checkpoint with the best one.

    An epoch is ceil(largest labelled domain / batch size) iterations. Ties go to the earlier epoch. Without a dev set
    all epochs are run and the last weights are kept.

    Training stops if it diverges: losses are checked after each step (on accelerators after several, see `StepLog`),
    weights and dev predictions after each epoch (see `multidomain.methods.divergence`). With `recover` in the settings
    it goes back to the best weights so far, starts the epoch again with new optimisers and half the learning rate, and
    tells the user. Weights that are not finite are neither kept nor written to a checkpoint.

    Where several processes train together (see `multidomain.nn.collectives`), each reads its share of every mini-batch,
    and all stop, recover and keep the same weights together. The first alone writes checkpoints and predicts the dev
    set. Their random numbers are decided by seed, process and step.

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
        self._log, self._stopped_by = StepLog(device), 0
        self._X = labelled_stream(data, settings.batch_size, settings.seed, settings.balanced, device)
        self._U = text_stream(data, settings.batch_size, settings.seed, device)
        self._iterations = math.ceil(np.bincount(data.labelled.d).max() / settings.batch_size)

    def run(self) -> History:
        """Train from scratch or from the checkpoint, and load the best weights into the method."""
        self._method.clip_norm = self._settings.clip_norm
        share_weights(self._method.state_dict())
        self._method.start_training()
        self._at, self._best = Position(), _copy(self._method)
        self._restore()
        self._lower_learning_rates()
        at = self._at
        self._began = self._saved = time.monotonic()
        self._earlier, self._started = at.spent, _clocks()
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
        return History(at.history, at.best_epoch, self._iterations, earlier=self._earlier)

    def _is_over(self) -> bool:
        at = self._at
        waited = at.epoch - at.best_epoch if at.best_epoch else 0
        return at.epoch == self._settings.max_epochs or waited >= self._settings.patience

    def _run_epochs(self) -> None:
        """Run epochs until training is over, or a signal has come and the state is saved."""
        self._stopped_by = 0
        while not self._is_over():
            try:
                self._run_epoch()
            except Divergence as divergence:
                self._recover(divergence)
            if self._is_stopped:
                self._save()
                from_first(lambda: None)  # torchrun ends all as soon as one has: none may before the file is written
                return
            self._save_if_due()

    def _run_epoch(self) -> None:
        """Run the rest of an epoch, or until a signal comes; raise a `Divergence` if training diverges in it."""
        self._method.train()
        while self._at.iteration < self._iterations:
            self._step()
            if self._is_stopped:
                self._read_log()
                return
            self._save_if_due()
        self._read_log()
        self._end_epoch()

    @property
    def _is_stopped(self) -> bool:
        """Tell whether a signal has come; with several processes, to any of them, and all know of it."""
        if are_joined():
            self._held.number = self._stopped_by or self._held.number
            return bool(self._stopped_by)
        return self._held.number is not None

    def _step(self) -> None:
        at, i = self._at, self._at.iteration
        if are_joined():
            torch.manual_seed(self._seed_of_step())
        self._method.before_step(at.epoch * self._iterations + i, self._settings.max_epochs * self._iterations)
        at.iteration += 1
        with training_step():
            self._log.add(self._method.step(self._X, self._U, at.epoch, i))
        if self._log.is_full:
            self._read_log()
        for callback in self._callbacks:
            callback.on_step_end(at.epoch + 1, at.iteration, self._means())

    def _seed_of_step(self) -> int:
        parts = [self._settings.seed, share()[0], self._at.epoch, self._at.iteration, len(self._at.recovered)]
        return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0])

    def _read_log(self) -> None:
        """Check and add up the values of the steps that were not read yet."""
        at, unread = self._at, len(self._log)
        for place, log in enumerate(self._agreed(self._log.read())):
            usual = at.usual or {k: max(v, log.get(k, v)) for k, v in self._method.losses_at_chance().items()}
            try:
                check_losses(log, usual, self._method)
            except Divergence:
                at.iteration -= unread - 1 - place
                raise
            at.usual = usual
            at.sums = {name: at.sums.get(name, 0.0) + value for name, value in log.items()}

    def _agreed(self, steps: list[dict[str, float]]) -> list[dict[str, float]]:
        """Return the mean over all processes, which tell each other of signals too."""
        if not are_joined() or not steps:
            return steps
        own = [value for log in steps for value in log.values()]
        means = iter(self._shared(own))
        return [{name: float(next(means).mean()) for name in log} for log in steps]

    def _shared(self, own: Sequence[float]) -> list[np.ndarray]:
        """Return each value in all processes, and learn whether a signal has come to one."""
        *values, signals = values_of_all([*own, self._held.number or 0]).T
        self._stopped_by = int(signals.max())
        return values

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
        if are_joined():
            self._shared([])  # one may have had a signal while it waited for the first, and there may be no other step

    def _dev_scores(self) -> tuple[dict[str, float], float | None]:
        """Return the accuracy in each domain, and the score that selects, as the first process has found them."""
        scores = from_first(self._own_dev_scores)
        if scores is None:
            raise Divergence("a prediction on the dev set is not finite")
        return scores[0], scores[1]

    def _own_dev_scores(self) -> tuple[dict[str, float], float | None] | None:
        """Return the same; None if a prediction is not finite."""
        dev, domains = self._data.dev, self._data.task.domains
        if not len(dev):
            return {}, None
        assert dev.y is not None
        probabilities = predicted_probabilities(self._method, dev.x, dev.d)
        if not np.isfinite(probabilities).all():
            return None
        predicted = probabilities.argmax(axis=1)
        accuracies = by_domain(accuracy, dev.y, predicted, dev.d)
        score = selection_score(self._metric, dev.y, predicted, dev.d)
        return {domains[d]: accuracies[d] for d in sorted(accuracies)}, score

    def _means(self) -> dict[str, float]:
        return {name: total / (self._at.iteration - len(self._log)) for name, total in self._at.sums.items()}

    def _save_if_due(self) -> None:
        if not len(self._log) and time.monotonic() - self._saved >= self._settings.checkpoint_seconds:
            self._save()

    def _save(self) -> None:
        """Write a checkpoint, unless weights are not finite: the next check says so, and the last good one stays."""
        if self._checkpoint is None or share()[0] or not_finite(self._method.state_dict().items()):
            return
        at, now = self._at, time.monotonic()
        at.drawn = (self._X.drawn, self._U.drawn)
        wall, cpu = (e + n - s for e, n, s in zip(self._earlier, _clocks(), self._started, strict=True))
        at.spent = (wall, cpu)
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
        self._log.clear()
        self._method.end_training()
        self._method.load_state_dict(self._best)
        self._method.start_training()
        self._lower_learning_rates()
        self._on_note(Note(at.recovered[-1], kind="recovered"))

    def _lower_learning_rates(self) -> None:
        for optimiser in self._method.optimisers.values():
            for group in optimiser.param_groups:
                for rate in group.keys() & {"lr", BASE_RATE}:  # the second: of a schedule
                    group[rate] *= 0.5 ** len(self._at.recovered)

    def _restore(self) -> None:
        restored = self._restored() if self._checkpoint else None
        if restored:
            assert self._checkpoint is not None
            self._best, position = restored
            at = validated(position, Position, self._checkpoint.path, FROM_THE_START)
            is_within = 0 <= at.best_epoch <= at.epoch == len(at.history) and 0 <= at.iteration <= self._iterations
            if not is_within or min(at.drawn) < 0:
                raise ModelError(f"{self._checkpoint.path} is at a position that no run can have.", FROM_THE_START)
            self._at = at
            self._X.drawn, self._U.drawn = at.drawn

    def _restored(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Restore the method from the checkpoint, if the first process has found one; return best weights, position."""
        assert self._checkpoint is not None
        checkpoint, restored = self._checkpoint, None
        if share()[0] == 0:
            restored = checkpoint.restore(self._method)
        if from_first(lambda: restored is not None) and share()[0]:
            restored = checkpoint.restore(self._method)
            if restored is None:
                raise ModelError(f"{checkpoint.path} is not there for process {share()[0]}.", _SAME_FILES)
        return restored


_SAME_FILES = "All processes must see the same files."


def _what_to_try(settings: TrainingSettings) -> str:
    """Return the hint of training that has diverged; it leaves out what these settings do already."""
    hints = ["Lower the learning rate ({settings.lr=RATE})"]
    if settings.clip_norm is None:
        hints.append("clip gradients ({clip_norm=1})")
    if not settings.recover:
        hints.append("let training go back and halve the learning rate by itself ({recover=3})")
    return f"{', or '.join(hints)}."


def _clocks() -> tuple[float, float]:
    return time.monotonic(), time.process_time()


def _copy(method: GradientMethod) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in method.state_dict().items()}
