"""Prediction on whole files, in constant memory."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from multidomain.data.columns import Columns
from multidomain.data.readers.base import CellBlock, Chunk
from multidomain.data.readers.tables import open_table
from multidomain.data.texts import Texts
from multidomain.data.writing import table_writer
from multidomain.errors import DataError, Note, quoted
from multidomain.kernels.parallel import map_ahead
from multidomain.model.model import Model, UnknownDomain

_CHUNK = 8192
ABSTAINED = -1


@contextmanager
def without_collection() -> Iterator[None]:
    """Pause garbage collection, which looks at every list of a chunk again and again and finds no cycle among them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True)
class Predicted:
    """What was written.

    Attributes
    ----------
    rows, without_text, abstained
        Number of rows, and of those without a prediction: for lack of a text, or of confidence.
    notes
        Notes on domains.
    """

    rows: int
    without_text: int
    abstained: int = 0
    notes: tuple[Note, ...] = ()


def predict_file(
    model: Model,
    source: Path,
    target: Path | None,
    columns: Columns,
    *,
    domain: str | None = None,
    probabilities: bool = False,
    abstain: float = 0.0,
    unknown_domain: UnknownDomain = "shared",
    encoding: str = "utf-8",
    escape_formulas: bool = False,
    run: Callable[[Callable[[], np.ndarray]], np.ndarray] = lambda job: job(),
) -> Predicted:
    """Copy a table with the columns `prediction` and `confidence` added.

    Every row is kept, in order. A row without text has both columns empty, one of too little confidence the first.
    Chunks of rows are predicted in as many threads as `multidomain.threads.use_threads` has set.

    Parameters
    ----------
    source
        CSV, TSV, JSON lines or Parquet.
    target
        CSV, TSV or JSON lines, by its suffix; written atomically. None is standard output, as CSV.
    domain
        Domain of all rows; by default, the table's domain column is used, if there is one.
    probabilities
        Add a column ``p(class)`` for each class.
    abstain
        Leave the prediction of rows with a lower confidence empty.
    encoding
        Text encoding of the source; the target is UTF-8.
    escape_formulas
        In CSV and TSV, put an apostrophe before cells that a spreadsheet would run as a formula.
    run
        Runs the model on a chunk of rows, for example in another thread.
    """
    table = open_table(source, encoding)
    columns = table.resolve(columns, find=("text", "domain"))
    added = ["prediction", "confidence"]
    if probabilities:
        added += [f"p({name})" for name in model.classes]
    taken = [name for name in added if name in table.columns]
    if taken:
        raise DataError(f"{source.name} has a column {quoted(taken)} already.", "Rename or remove it.")
    rows = without_text = abstained = 0
    notes: dict[Note, None] = {}
    with table_writer(target, [*table.columns, *added], escape_formulas=escape_formulas) as write:
        answered = Answers(model, columns, domain, probabilities, abstain, unknown_domain, run, write.delimiter)
        parts = table.chunks(_CHUNK) if write.delimiter is None else table.blocks(_CHUNK)
        for part in map_ahead(answered, parts):
            if part.text is None:
                write(part.rows())
            else:
                write.write_text(part.text, part.rows, len(part.part))
            notes.update(dict.fromkeys(part.notes))
            rows += len(part.part)
            without_text += len(part.part) - len(part.at)
            abstained += int((part.best == ABSTAINED).sum())
    return Predicted(rows, without_text, abstained, tuple(notes))


@dataclass(frozen=True, eq=False)
class Answered:
    """Predictions on some rows.

    Attributes
    ----------
    at
        The rows with a text; what follows is theirs.
    best
        Number of the predicted class, or `ABSTAINED`.
    numbers
        Confidence, and the probabilities of the classes if they are wanted; shape (len(at), numbers).
    text
        The rows as they are to be written, if compiled code can do that.
    """

    part: Chunk | CellBlock
    classes: tuple[Any, ...]
    at: np.ndarray
    best: np.ndarray
    numbers: np.ndarray
    notes: tuple[Note, ...] = ()
    text: str | None = None

    def rows(self) -> list[list[Any]]:
        """Return the cells of all rows, with those added."""
        added: list[list[Any]] = [[None] * (1 + self.numbers.shape[1])] * len(self.part)
        for i, k, numbers in zip(self.at.tolist(), self.best.tolist(), self.numbers.tolist(), strict=True):
            added[i] = [None if k == ABSTAINED else self.classes[k], *numbers]
        return [[*cells, *of_row] for cells, of_row in zip(self.part.rows(), added, strict=True)]


@dataclass(frozen=True)
class Answers:
    """Answers parts of a table; for the parameters see `predict_file`."""

    model: Model
    columns: Columns
    domain: str | None
    probabilities: bool
    abstain: float
    unknown_domain: UnknownDomain
    run: Callable[[Callable[[], np.ndarray]], np.ndarray]
    delimiter: str | None

    def __call__(self, part: Chunk | CellBlock) -> Answered:
        """Return predictions on the rows that have a text, and notes on their domains."""
        assert self.columns.text is not None
        texts = part[self.columns.text]
        at = _rows_with_text(texts)
        notes: tuple[Note, ...] = ()
        p = np.empty((0, len(self.model.classes)))
        if len(at):
            texts = texts[at] if isinstance(texts, Texts) else [texts[i] for i in at.tolist()]
            p, notes = self._predicted(texts, *self._domains(part, at))
        best, p = p.argmax(axis=1), np.round(p.astype(float), 6)
        confidence = np.take_along_axis(p, best[:, None], axis=1)
        best[confidence[:, 0] < self.abstain] = ABSTAINED
        numbers = np.hstack([confidence, p]) if self.probabilities else confidence
        answered = Answered(part, self.model.classes, at, best, numbers, notes)
        if isinstance(part, CellBlock) and self.delimiter is not None:
            from multidomain.data.block_text import block_text

            return replace(answered, text=block_text(part, self.delimiter, self.model.classes, at, best, numbers))
        return answered

    def _domains(self, part: Chunk | CellBlock, at: np.ndarray) -> tuple[list[Any], np.ndarray]:
        """Return domains of rows, few of them more than once, and which one each row has."""
        if self.domain is not None or self.columns.domain is None:
            return [self.domain], np.zeros(len(at), dtype=np.int64)
        values = part[self.columns.domain]
        if isinstance(values, Texts):
            return values[at].distinct()
        return [values[i] for i in at.tolist()], np.arange(len(at))

    def _predicted(
        self, texts: Sequence[str], domains: list[Any], domain_of_text: np.ndarray
    ) -> tuple[np.ndarray, tuple[Note, ...]]:
        resolved = self.model.resolve_domains(domains, len(domains), self.unknown_domain)
        codes = resolved.codes[domain_of_text]
        return self.run(lambda: self.model.probabilities(self.model.encode(texts), codes)), resolved.notes


def _rows_with_text(texts: Sequence[Any]) -> np.ndarray:
    """Return which rows have a text that is not blank."""
    if isinstance(texts, Texts):
        return np.flatnonzero(texts.are_not_blank())
    return np.flatnonzero([isinstance(text, str) and bool(text.strip()) for text in texts])
