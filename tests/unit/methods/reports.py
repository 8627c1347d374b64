"""A context that keeps what a method reports while it is fitted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from multidomain.errors import Note
from multidomain.methods.base import FitContext


class Reports(FitContext):
    """Candidates with their dev accuracies, and notes, in the order in which they came."""

    def __init__(self) -> None:
        self.told: list[tuple[dict[str, Any], float | None]] = []
        self.notes: list[Note] = []

    def report(self, values: Mapping[str, Any], dev_accuracy: float | None) -> None:
        self.told.append((dict(values), dev_accuracy))

    def note(self, note: Note) -> None:
        self.notes.append(note)

    @property
    def values(self) -> list[dict[str, Any]]:
        """The candidates alone."""
        return [values for values, _ in self.told]
