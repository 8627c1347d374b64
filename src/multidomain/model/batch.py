"""Prediction on whole files, in constant memory."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multidomain.data.columns import Columns
from multidomain.data.readers.base import Chunk
from multidomain.data.readers.tables import open_table
from multidomain.data.writing import table_writer
from multidomain.errors import DataError, Note, quoted
from multidomain.kernels.parallel import map_ahead
from multidomain.model.model import Model, UnknownDomain

_CHUNK = 4096


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
    answered = _Answers(model, columns, domain, probabilities, unknown_domain, run)
    rows = without_text = abstained = 0
    notes: dict[Note, None] = {}
    with table_writer(target, [*table.columns, *added], escape_formulas=escape_formulas) as write:
        for cells, answers, of_chunk in map_ahead(answered, table.chunks(_CHUNK)):
            notes.update(dict.fromkeys(of_chunk))
            without_text += sum(answer[1] is None for answer in answers)
            unsure = [answer for answer in answers if answer[1] is not None and answer[1] < abstain]
            for answer in unsure:
                answer[0] = None
            write([list(c) + list(a) for c, a in zip(cells, answers, strict=True)])
            rows += len(answers)
            abstained += len(unsure)
    return Predicted(rows, without_text, abstained, tuple(notes))


@dataclass(frozen=True)
class _Answers:
    """Answers chunks of a table; for the parameters see `predict_file`."""

    model: Model
    columns: Columns
    domain: str | None
    probabilities: bool
    unknown_domain: UnknownDomain
    run: Callable[[Callable[[], np.ndarray]], np.ndarray]

    def __call__(self, chunk: Chunk) -> tuple[list[tuple[Any, ...]], list[list[Any]], tuple[Note, ...]]:
        """Return the cells of the rows, the values to add to each, and notes on their domains."""
        assert self.columns.text is not None
        texts, classes = chunk.values[self.columns.text], self.model.classes
        domains = [self.domain] * len(texts)
        if self.domain is None and self.columns.domain is not None:
            domains = chunk.values[self.columns.domain]
        has_text = [i for i, text in enumerate(texts) if isinstance(text, str) and text.strip()]
        answers: list[list[Any]] = [[None] * (2 + len(classes) * self.probabilities) for _ in texts]
        notes: tuple[Note, ...] = ()
        if has_text:
            p, notes = self._predicted([texts[i] for i in has_text], [domains[i] for i in has_text])
            best = p.argmax(axis=1)
            for i, row, k in zip(has_text, np.round(p.astype(float), 6).tolist(), best.tolist(), strict=True):
                answers[i] = [classes[k], row[k], *(row if self.probabilities else ())]
        return list(zip(*chunk.values.values(), strict=True)), answers, notes

    def _predicted(self, texts: list[str], domains: list[str | None]) -> tuple[np.ndarray, tuple[Note, ...]]:
        resolved = self.model.resolve_domains(domains, len(texts), self.unknown_domain)
        return self.run(lambda: self.model.probabilities(self.model.encode(texts), resolved.codes)), resolved.notes
