"""The history of fitting."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Epoch:
    """A completed epoch.

    Attributes
    ----------
    epoch
        Its number, from 1.
    log
        Means over its iterations of what the method logs.
    dev_accuracy
        Mean over domains of the accuracy on the dev set; None if there is none.
    """

    epoch: int
    log: dict[str, float]
    dev_accuracy: float | None
    dev_accuracy_by_domain: dict[str, float]
    seconds: float


@dataclass
class History:
    """The history of a run.

    Attributes
    ----------
    epochs
        Empty for a method that does not learn in epochs.
    best_epoch
        The epoch whose checkpoint was kept, from 1; 0 without epochs.
    chosen
        Hyperparameters that were chosen on the dev set.
    """

    epochs: list[Epoch] = field(default_factory=list)
    best_epoch: int = 0
    iterations_per_epoch: int = 0
    chosen: dict[str, Any] = field(default_factory=dict)
