"""What is known about a training run, and who is told while it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multidomain.model.model import Model


@dataclass
class Epoch:
    """One epoch that has ended.

    Attributes
    ----------
    epoch
        Its number, from 1.
    log
        Means over its iterations of what the method logs.
    dev_accuracy
        Mean over domains of the accuracy on development rows; None if there are none.
    """

    epoch: int
    log: dict[str, float]
    dev_accuracy: float | None
    dev_accuracy_by_domain: dict[str, float]
    seconds: float


@dataclass
class History:
    """How a run went.

    Attributes
    ----------
    epochs
        Empty for a method that is fitted at once.
    best_epoch
        The one whose weights were kept, from 1; 0 without epochs.
    chosen
        Values that a method which is fitted at once has chosen on development rows.
    """

    epochs: list[Epoch] = field(default_factory=list)
    best_epoch: int = 0
    iterations_per_epoch: int = 0
    chosen: dict[str, Any] = field(default_factory=dict)


class Callback:
    """Is told how training goes; override what you need."""

    def on_train_begin(self, max_epochs: int, iterations: int, past: list[Epoch]) -> None:
        """Training begins, or goes on after the epochs in `past`."""

    def on_step_end(self, epoch: int, iteration: int, log: Mapping[str, float]) -> None:
        """Iteration `iteration` of `epoch` (both from 1) has ended; `log` are means over the epoch so far."""

    def on_epoch_end(self, epoch: Epoch, is_best: bool) -> None:
        """An epoch has ended."""

    def on_run_begin(self, run: Mapping[str, Any]) -> None:
        """A run is about to begin; `run` says on what data, with which split and settings."""

    def on_model_built(self, model: Model) -> None:
        """Training is about to begin; the model has the weights that it starts from."""

    def on_prepare(self, what: str, done: int, of: int) -> None:
        """Part `done` of `of` of something that comes before training has been made."""

    def on_candidate(self, values: Mapping[str, Any], dev_accuracy: float | None) -> None:
        """A method that is fitted at once has been fitted with some values."""

    def on_train_end(self) -> None:
        """Training has ended, as planned or by an error."""

    def on_run_error(self) -> None:
        """The run has been stopped or has failed; what was saved before is as it was."""

    def on_run_end(self, figures: Mapping[str, float]) -> None:
        """The model that was kept has been measured and saved; the run is over."""
