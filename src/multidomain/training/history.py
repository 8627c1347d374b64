"""What is known about a training run, and who is told while it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


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
    """How a run went; `best_epoch` (from 1) is the one whose weights were kept."""

    epochs: list[Epoch]
    best_epoch: int
    iterations_per_epoch: int


class Listener:
    """Is told how training goes; override what you need."""

    def started(self, max_epochs: int, iterations: int, past: list[Epoch]) -> None:
        """Training begins, or goes on after the epochs in `past`."""

    def stepped(self, epoch: int, iteration: int, log: Mapping[str, float]) -> None:
        """Iteration `iteration` of `epoch` (both from 1) has ended; `log` are means over the epoch so far."""

    def epoch_ended(self, epoch: Epoch, is_best: bool) -> None:
        """An epoch has ended."""

    def ended(self) -> None:
        """Training has ended, as planned or by an error."""
