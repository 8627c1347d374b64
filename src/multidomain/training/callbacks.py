"""Callbacks, called during a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from multidomain.errors import Note
from multidomain.methods.history import Epoch
from multidomain.model.model import Model
from multidomain.stages import reported_to
from multidomain.training.data import EncodedRows


class Callback:
    """Base of callbacks; override what you need.

    Examples
    --------
    >>> class PrintDev(Callback):
    ...     def on_epoch_end(self, epoch, is_best):
    ...         print(epoch.epoch, epoch.dev_accuracy)
    """

    def on_run_begin(self, run: Mapping[str, Any]) -> None:
        """Called before a run in a folder; `run` says on what data, with which split and settings."""

    def on_prepare(self, what: str, done: int, total: int) -> None:
        """Called during preparation before training, such as training word vectors, and in stages that take long."""

    def on_model_built(self, model: Model, encoded: EncodedRows) -> None:
        """Called before training, with the initial weights and all rows of the run."""

    def on_train_begin(self, max_epochs: int, iterations: int, past: list[Epoch]) -> None:
        """Called when training begins, or resumes after the epochs in `past`."""

    def on_step_end(self, epoch: int, iteration: int, log: Mapping[str, float]) -> None:
        """Called after iteration `iteration` of `epoch` (both from 1); `log` are means over the epoch so far."""

    def on_epoch_end(self, epoch: Epoch, is_best: bool) -> None:
        """Called after each epoch; `is_best` if its dev score is the best so far."""

    def on_candidate(self, values: Mapping[str, Any], dev_score: float | None) -> None:
        """Called after a set of hyperparameters was tried by a method that does not learn in epochs."""

    def on_train_end(self) -> None:
        """Called when training ends, also by an error."""

    def on_note(self, note: Note) -> None:
        """Called with a note for the user; the run continues."""

    def on_run_error(self) -> None:
        """Called when a run in a folder fails or is stopped; what was saved before is unchanged."""

    def on_run_end(self, figures: Mapping[str, float]) -> None:
        """Called when the model of a run in a folder is evaluated and saved."""


def prepare(callbacks: Sequence[Callback], what: str, done: int, total: int) -> None:
    """Tell callbacks how far a preparation is."""
    for callback in callbacks:
        callback.on_prepare(what, done, total)


@contextmanager
def progress_of_stages(callbacks: Sequence[Callback], *, in_epochs: bool) -> Iterator[None]:
    """Tell callbacks of the stages of training, and of its end where no loop over epochs has done so."""
    has_ended = False
    try:
        with reported_to(partial(prepare, callbacks)):
            yield
        has_ended = in_epochs
    finally:
        for callback in callbacks if not has_ended else ():
            callback.on_train_end()
