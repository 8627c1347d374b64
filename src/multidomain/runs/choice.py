"""The method chosen by `auto`, and the candidates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from multidomain.errors import EXTRA_OF
from multidomain.metrics import METRIC_NAMES, Metric


@dataclass(frozen=True)
class Candidate:
    """A method that was compared.

    Attributes
    ----------
    accuracy, error
        Cross-validated score by `metric`, with its standard error; None if there is none.
    diverged, needs
        Why there is none, if it did not run out of time: it has diverged, or needs a package that is not installed.
    """

    method: str
    accuracy: float | None
    error: float | None
    seconds: float
    metric: Metric = "accuracy"
    diverged: bool = False
    needs: str = ""

    def __str__(self) -> str:
        if self.needs:
            return f"{self.method} left out: it needs {self.needs} (pip install 'multidomain[{EXTRA_OF[self.needs]}]')"
        if self.accuracy is None or self.error is None:
            return f"{self.method} {'diverged' if self.diverged else 'out of time'} ({self.seconds:.0f} s)"
        name = METRIC_NAMES[self.metric]
        return f"{self.method} {100 * self.accuracy:.2f} ± {100 * self.error:.2f} % {name} ({self.seconds:.0f} s)"


@dataclass(frozen=True)
class AutoChoice:
    """The chosen method, and all candidates.

    Attributes
    ----------
    rule
        How scores were measured, for people.
    fingerprint
        Of data, split and settings that the choice is for.
    features
        Settings of featurizers that the chosen method was compared with, besides those of the run.
    """

    method: str
    candidates: tuple[Candidate, ...]
    rule: str
    fingerprint: str
    features: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def reason(self) -> str:
        """Return why this method was chosen: the scores of all candidates."""
        best_first = sorted(self.candidates, key=lambda candidate: -(candidate.accuracy or 0))
        return f"{'; '.join(map(str, best_first))}; {self.rule}"
