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
    dev_score
        What selects the epoch: the dev score by the metric of the run.
    """

    epoch: int
    log: dict[str, float]
    dev_accuracy: float | None
    dev_accuracy_by_domain: dict[str, float]
    seconds: float
    dev_score: float | None = None

    def __post_init__(self) -> None:
        if self.dev_score is None:  # of a run that knew no other metric
            self.dev_score = self.dev_accuracy


@dataclass(frozen=True)
class ClassPrior:
    """The class prior of a domain with few labels or none, as training took it.

    Attributes
    ----------
    source
        ``estimate``, ``labelled`` or ``given``.
    prior, low, high
        Share of each class, and its 95 % interval.
    certainty
        From 0, nothing is known, to 1; predictions are aligned to the prior in proportion.
    labels
        Number of labels of the domain.
    """

    source: str
    prior: dict[str, float]
    low: dict[str, float]
    high: dict[str, float]
    certainty: float
    labels: int


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
    class_priors
        Of domains with few labels or none, by name, if the method uses them.
    earlier
        Seconds, on the clock and of CPU time, that a run had trained for before its last checkpoint was resumed.
    """

    epochs: list[Epoch] = field(default_factory=list)
    best_epoch: int = 0
    iterations_per_epoch: int = 0
    chosen: dict[str, Any] = field(default_factory=dict)
    class_priors: dict[str, ClassPrior] = field(default_factory=dict)
    earlier: tuple[float, float] = field(default=(0.0, 0.0), compare=False)
