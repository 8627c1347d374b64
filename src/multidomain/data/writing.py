"""Tables written for users, as CSV, TSV or JSON lines."""

from __future__ import annotations

import csv
import errno
import io
import json
import math
import os
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from multidomain.errors import ConfigError, StorageError, quoted
from multidomain.files import out_of_space, whole_file

WRITABLE = (".csv", ".tsv", ".jsonl", ".ndjson")
_JSON = (".jsonl", ".ndjson")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_STDOUT = "standard output"


class WriteRows(ABC):
    """Writes rows to a table when it is called."""

    delimiter: str | None = None
    """What separates the cells of text that `write_text` takes; None if it takes none."""

    @abstractmethod
    def __call__(self, rows: Iterable[Sequence[Any]]) -> None:
        """Write rows."""

    def write_text(self, text: str, rows: Callable[[], Sequence[Sequence[Any]]], n_rows: int) -> None:
        """Write rows that are formatted already, as the call would write `rows()`."""
        raise NotImplementedError


def check_writable(path: Path) -> None:
    """Check that a table can be written there: the suffix is one of a table, and no folder or device has the name."""
    if path.suffix.lower() not in WRITABLE:
        raise ConfigError(f"Cannot write '{path.name}': its name must end in {quoted(WRITABLE)}.")
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "not a regular file"
        raise ConfigError(f"Cannot write '{path}': it is {what}.", "Choose another name.")


@contextmanager
def table_writer(
    path: Path | None, columns: Sequence[str], encoding: str = "utf-8", *, escape_formulas: bool = False
) -> Iterator[WriteRows]:
    """Open a table and give a function that writes rows to it, some at a time.

    Parameters
    ----------
    path
        Written atomically, in the format of its suffix; None is standard output, as CSV.
    escape_formulas
        In CSV and TSV, put an apostrophe before cells that a spreadsheet would run as a formula (OWASP, CSV
        injection): those that begin with ``= + - @``, tab or carriage return and are no numbers.

    Raises
    ------
    StorageError
        The table cannot be written; the message says why, and which row has a character that is not in the encoding.
    """
    if path is None:
        with _standard_output() as file:
            yield _row_writer(_Lines(file, _STDOUT), ".csv", columns, escape_formulas)
        return
    check_writable(path)
    with whole_file(path) as temporary, _opened(temporary, encoding) as file:
        yield _row_writer(_Lines(file, path.name), path.suffix.lower(), columns, escape_formulas)


@contextmanager
def _standard_output() -> Iterator[TextIO]:
    """Give standard output and flush it, so that a full disk is an error here and not when the process ends."""
    if sys.stdout is None:
        raise StorageError("Standard output is closed.", "Write to a file with {output=FILE}.")
    try:
        yield sys.stdout
        sys.stdout.flush()
    except OSError as error:
        if error.errno == errno.EPIPE:  # `| head`: click ends the process quietly
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python tries again at its end
        raise out_of_space(error, _STDOUT) or error from None


def _opened(path: Path, encoding: str) -> TextIO:
    try:
        return path.open("w", encoding=encoding, newline="")
    except LookupError:
        raise ConfigError(f"'{encoding}' is not the name of a text encoding.", "Choose {encoding=utf-8}.") from None


class _Lines:
    """The lines of a table, one for each row.

    Parameters
    ----------
    file
        Where they are written.
    name
        What messages call it.
    """

    def __init__(self, file: TextIO, name: str) -> None:
        self._file = file
        self._name = name
        self._rows = 0
        self._encoding = file.encoding or "utf-8"  # io.StringIO has none
        self.is_unicode = self._encoding.lower().startswith("utf")

    def write(self, line: str) -> None:
        """Write the line of a row, which ends in CR LF or LF, with LF."""
        self._rows += 1
        try:
            self._file.write(line.removesuffix("\n").removesuffix("\r") + "\n")
        except UnicodeError as error:
            raise self._unwritable(error) from None

    def write_all(self, text: str, rows: int) -> bool:
        """Write the lines of several rows; if one of them has a character that cannot be written, return False."""
        try:
            self._file.write(text)
        except UnicodeError:
            return False
        self._rows += rows
        return True

    def _unwritable(self, error: UnicodeError) -> StorageError:
        what = f"a character ({error})"
        if isinstance(error, UnicodeEncodeError):
            what = f"the character {error.object[error.start]!r}"
        if self.is_unicode:
            hint = "Remove it: it is half of a surrogate pair."
        elif self._name == _STDOUT:
            hint = "Write to a file with {output=FILE}, or set PYTHONIOENCODING=utf-8."
        else:
            hint = f"Choose {{encoding=utf-8}}, or an output in JSON lines ({quoted(_JSON)})."
        return StorageError(f"{self._name}, row {self._rows}: {what} is not in {self._encoding}.", hint)


def _row_writer(lines: _Lines, suffix: str, columns: Sequence[str], escape_formulas: bool) -> WriteRows:
    if suffix in _JSON:
        return _JsonWriter(lines, columns)
    return _DelimitedWriter(lines, "\t" if suffix == ".tsv" else ",", columns, escape_formulas)


class _DelimitedWriter(WriteRows):
    def __init__(self, lines: _Lines, delimiter: str, columns: Sequence[str], escape_formulas: bool) -> None:
        self.delimiter = None if escape_formulas else delimiter
        self._lines = lines
        self._separator = delimiter
        self._escape_formulas = escape_formulas
        self([columns])

    def __call__(self, rows: Iterable[Sequence[Any]]) -> None:
        rows = [[_escaped(cell) for cell in row] for row in rows] if self._escape_formulas else list(rows)
        text = io.StringIO()
        csv.writer(text, lineterminator="\n", delimiter=self._separator).writerows(rows)
        if "\r" in text.getvalue():
            self._write_one_by_one(rows)
        else:
            self.write_text(text.getvalue(), lambda: rows, len(rows))

    def write_text(self, text: str, rows: Callable[[], Sequence[Sequence[Any]]], n_rows: int) -> None:
        if not self._lines.write_all(text, n_rows):
            self._write_one_by_one(rows())

    def _write_one_by_one(self, rows: Sequence[Sequence[Any]]) -> None:
        # With CR LF as terminator csv quotes cells that hold either; with LF it leaves a lone CR bare (Python < 3.13).
        csv.writer(self._lines, lineterminator="\r\n", delimiter=self._separator).writerows(rows)


def _escaped(cell: Any) -> Any:
    is_formula = isinstance(cell, str) and cell.startswith(_FORMULA) and not _NUMBER.fullmatch(cell)
    return f"'{cell}" if is_formula else cell


class _JsonWriter(WriteRows):
    def __init__(self, lines: _Lines, columns: Sequence[str]) -> None:
        self._lines = lines
        self._columns = columns
        # Escapes let an encoding of few characters hold them all.
        self._encode = json.JSONEncoder(ensure_ascii=not lines.is_unicode, default=str).encode

    def __call__(self, rows: Iterable[Sequence[Any]]) -> None:
        for row in rows:
            record = dict(zip(self._columns, map(_json_value, row), strict=True))
            self._lines.write(self._encode(record) + "\n")


def _json_value(value: Any) -> Any:
    """Return the value with null for NaN and infinities, which JSON does not have."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case list():
            return [_json_value(item) for item in value]
        case dict():
            return {key: _json_value(item) for key, item in value.items()}
    return value
