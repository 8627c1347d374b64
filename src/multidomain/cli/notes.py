"""Notes of a training run, printed as they arise."""

from __future__ import annotations

from multidomain.cli.console import print_notes
from multidomain.errors import Note
from multidomain.training.callbacks import Callback


class PrintNotes(Callback):
    """Prints each note of a run once."""

    def __init__(self) -> None:
        self._printed: set[Note] = set()

    def on_note(self, note: Note) -> None:
        if note not in self._printed:
            self._printed.add(note)
            print_notes([note])
