"""The method chosen by `auto`, and the candidates."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """A method that was compared.

    Attributes
    ----------
    accuracy, error
        Cross-validated, with its standard error; None if it ran out of time.
    """

    method: str
    accuracy: float | None
    error: float | None
    seconds: float

    def __str__(self) -> str:
        if self.accuracy is None or self.error is None:
            return f"{self.method} out of time ({self.seconds:.0f} s)"
        return f"{self.method} {100 * self.accuracy:.2f} ± {100 * self.error:.2f} % accuracy ({self.seconds:.0f} s)"


@dataclass(frozen=True)
class AutoChoice:
    """The chosen method, and all candidates.

    Attributes
    ----------
    rule
        How accuracy was measured, for people.
    fingerprint
        Of data, split and settings that the choice is for.
    """

    method: str
    candidates: tuple[Candidate, ...]
    rule: str
    fingerprint: str

    @property
    def reason(self) -> str:
        """Return why this method was chosen: the accuracy of all candidates."""
        best_first = sorted(self.candidates, key=lambda candidate: -(candidate.accuracy or 0))
        return f"{'; '.join(map(str, best_first))}; {self.rule}"
