"""The folds of a cross-validation: methods are trained on them, in a time budget."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from multidomain.data.corpus import Corpus
from multidomain.data.splits import Split
from multidomain.devices import Device
from multidomain.errors import TrainingError
from multidomain.features.base import Documents
from multidomain.methods.history import Epoch
from multidomain.model.model import Model
from multidomain.training.callbacks import Callback
from multidomain.training.data import EncodedRows
from multidomain.training.settings import RunSettings
from multidomain.training.train import suited_device, train_model


@dataclass(frozen=True)
class Tried:
    """A method that was trained on all folds, or as many as it could.

    Attributes
    ----------
    predicted
        The classes of the test rows of each fold; None if the method ran out of time or has diverged.
    seconds
        Of training.
    """

    settings: RunSettings
    predicted: Sequence[np.ndarray] | None
    seconds: float
    divergence: TrainingError | None = None


class OutOfTime(Exception):
    """A method exceeds its time budget."""


class Clock(Callback):
    """Stops training when the time budget is used up."""

    def __init__(self, deadline: float):
        self._deadline = deadline

    def check(self, ahead: float = 0) -> None:
        """Stop if the budget is used up, or would be after this many more seconds."""
        if time.monotonic() + ahead > self._deadline:
            raise OutOfTime

    def on_step_end(self, epoch: int, iteration: int, log: Mapping[str, float]) -> None:
        self.check()

    def on_epoch_end(self, epoch: Epoch, is_best: bool) -> None:
        self.check()

    def on_candidate(self, values: Mapping[str, Any], dev_score: float | None) -> None:
        self.check()

    def on_prepare(self, what: str, done: int, total: int) -> None:
        self.check()

    def on_model_built(self, model: Model, encoded: EncodedRows) -> None:
        self.check()


def try_in_turn(
    corpus: Corpus,
    folds: Sequence[Split],
    methods: Sequence[RunSettings],
    budget: float,
    device: Device,
    callbacks: Sequence[Callback],
    documents: Documents,
) -> Iterator[Tried]:
    """Train each method on each fold, in this process.

    Parameters
    ----------
    methods
        The settings of each.
    budget
        Seconds for all methods; the first that ends has as many as it needs.
    """
    began, has_fallback = time.monotonic(), False
    for own in methods:
        started = time.monotonic()
        clock = Clock(began + budget if has_fallback else np.inf)
        predicted = divergence = None
        try:
            predicted = _predictions(corpus, folds, own, clock, device, callbacks, documents)
            has_fallback = True
        except OutOfTime:
            for callback in callbacks:
                callback.on_train_end()
        except TrainingError as fault:
            divergence = fault
        yield Tried(own, predicted, time.monotonic() - started, divergence)


def _predictions(
    corpus: Corpus,
    folds: Sequence[Split],
    settings: RunSettings,
    clock: Clock,
    device: Device,
    callbacks: Sequence[Callback],
    documents: Documents,
) -> list[np.ndarray]:
    """Return the predicted classes of the test rows of each fold."""
    predicted: list[np.ndarray] = []
    began = time.monotonic()
    for fold in folds:
        so_far = len(predicted)
        clock.check(ahead=(time.monotonic() - began) / so_far * (len(folds) - so_far) if so_far else 0)
        heard = [clock, *map(_WithoutNotes, callbacks)]
        predicted.append(predicted_classes(corpus, fold, settings, device, heard, documents))
    return predicted


def predicted_classes(
    corpus: Corpus,
    fold: Split,
    settings: RunSettings,
    device: Device,
    callbacks: Sequence[Callback],
    documents: Documents,
) -> np.ndarray:
    """Train on a fold, and return the predicted classes of its test rows."""
    trained = train_model(
        corpus,
        replace(fold, test=fold.test[:0]),  # a class that is only in the test set just counts as an error
        settings,
        device=suited_device(settings, device),
        callbacks=callbacks,
        documents=documents,
        also_encode=fold.test,
    )
    classes = np.array(trained.model.classes).astype(str)
    return classes[trained.probabilities(corpus, fold.test).argmax(axis=1)]


class _WithoutNotes(Callback):
    """Forwards everything but notes, since notes on single folds are of no interest."""

    def __init__(self, callback: Callback):
        for name in vars(Callback):
            if name.startswith("on_") and name != "on_note":
                setattr(self, name, getattr(callback, name))
