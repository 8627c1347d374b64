"""What all table formats share: chunks of rows, and text files decoded with errors that name the row."""

from __future__ import annotations

import codecs
import io
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, TypeVar

import numpy as np

from multidomain.data.columns import Columns, resolve_columns
from multidomain.data.texts import Texts
from multidomain.errors import ConfigError, DataError, quoted

Part = TypeVar("Part")

CHUNK_SIZE, _FIRST_ROWS = 4096, 256
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Chunk:
    """Some consecutive rows of a table.

    Parameters
    ----------
    first_row
        Number of the first row, as a spreadsheet or editor shows it; the others follow without gaps.
    values
        The values of each column, one per row.
    """

    first_row: int
    values: dict[str, list[Any]]

    def __len__(self) -> int:
        return len(next(iter(self.values.values()), []))

    def __getitem__(self, column: str) -> list[Any]:
        """Return the values of a column."""
        return self.values[column]

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the values of each row."""
        return list(zip(*self.values.values(), strict=True))


@dataclass(frozen=True, eq=False)
class CellBlock:
    """Some consecutive rows of a table whose cells are texts, in UTF-8.

    Parameters
    ----------
    columns
        Names of the columns.
    utf8 : ndarray of uint8
        All cells, row by row.
    starts : ndarray of int64, shape (rows * columns + 1,)
        Where each cell begins, and the last one ends.
    """

    columns: list[str]
    utf8: np.ndarray
    starts: np.ndarray

    def __len__(self) -> int:
        return (len(self.starts) - 1) // len(self.columns)

    def __getitem__(self, column: str) -> Texts:
        """Return the cells of a column."""
        k, n = self.columns.index(column), len(self.columns)
        return Texts(self.utf8, self.starts[:-1][k::n], self.starts[1:][k::n])

    def rows(self) -> list[tuple[str, ...]]:
        """Return the cells of each row."""
        return list(zip(*(list(self[column]) for column in self.columns), strict=True))


class Table(ABC):
    """A table on disk that is read in chunks.

    Parameters
    ----------
    path
        The file.
    columns
        Names of its columns.
    """

    def __init__(self, path: Path, columns: list[str]) -> None:
        self.path = path
        self.columns = columns

    def estimated_chunks(self, size: int = CHUNK_SIZE) -> int:
        """Return about how many chunks the table has, from the lengths of its first rows."""
        first = next(self._chunks(_FIRST_ROWS), None)
        if first is None:
            return 0
        characters = sum(len(str(cell)) + 1 for cells in first.values.values() for cell in cells)
        return -(-self.path.stat().st_size * len(first) // (characters * size))

    def chunks(self, size: int = CHUNK_SIZE) -> Iterator[Chunk]:
        """Yield all rows in order, at most `size` at a time.

        Raises
        ------
        DataError
            A row is ragged or cannot be decoded, or there is no row at all.
        """
        yield from self._some(self._chunks(size))

    def blocks(self, size: int = CHUNK_SIZE) -> Iterator[Chunk | CellBlock]:
        """Yield the same rows, in blocks of cells where compiled code can read them, and elsewhere as `chunks` does."""
        yield from self._some(self._blocks(size))

    def _some(self, parts: Iterator[Part]) -> Iterator[Part]:
        empty = True
        for part in parts:
            empty = False
            yield part
        if empty:
            raise DataError(
                f"{self.path.name} has a header ({quoted(self.columns)}) but no rows. Expected at least one row."
            )

    def resolve(self, wanted: Columns, *, require: Collection[str] = ("text",), **options: Any) -> Columns:
        """Return which columns hold text, label, domain and split; see `resolve_columns`."""
        return resolve_columns(self.columns, wanted, require=require, file=self.path.name, **options)

    @abstractmethod
    def _chunks(self, size: int) -> Iterator[Chunk]:
        """Yield the rows of the format."""

    def _blocks(self, size: int) -> Iterator[Chunk | CellBlock]:
        """Yield the rows in blocks, if the format has any."""
        return self._chunks(size)


class ChunkBuilder:
    """Gathers rows into chunks of consecutive row numbers."""

    def __init__(self, columns: list[str], size: int) -> None:
        self._columns = columns
        self._size = size
        self._first_row = 0
        self._rows: list[list[Any]] = []

    def add(self, row: int, cells: list[Any]) -> Chunk | None:
        """Add a row; return the chunk before it, if that is full or a row was skipped."""
        ended = None
        if self._rows and (len(self._rows) == self._size or row != self._first_row + len(self._rows)):
            ended = self.rest()
        if not self._rows:
            self._first_row = row
        self._rows.append(cells)
        return ended

    def rest(self) -> Chunk | None:
        """Return the remaining rows, if there are any."""
        if not self._rows:
            return None
        values = [list(column) for column in zip(*self._rows, strict=True)]
        self._rows = []
        return Chunk(self._first_row, dict(zip(self._columns, values, strict=True)))


def open_text(path: Path, encoding: str, errors: str = "surrogateescape") -> TextIO:
    """Open a text file; by default undecodable bytes become surrogates, so that they can be located by row later."""
    try:
        name = codecs.lookup(encoding).name
        io.TextIOWrapper(io.BytesIO(), name)  # refuses what is not from bytes to text, such as 'hex' and 'rot13'
    except (LookupError, ValueError):  # the latter for names that are no text themselves
        raise ConfigError(
            f"{encoding!r} is not the name of a text encoding. Common ones: 'utf-8', 'cp1252', 'latin-1', 'utf-16'."
        ) from None
    # Spreadsheets write a byte order mark, which would become part of the first column's name.
    name = "utf-8-sig" if name == "utf-8" else name
    return path.open(encoding=name, errors=errors, newline="")


def has_surrogate(text: str) -> bool:
    """Whether `text` contains an undecodable byte or half of a surrogate pair."""
    return not text.isascii() and _SURROGATE.search(text) is not None


def undecodable(file: str, row: int, column: str, cell: str, encoding: str) -> DataError:
    """Return the error for a cell with bytes that are not in the encoding."""
    match = _SURROGATE.search(cell)
    assert match is not None
    around = cell[max(0, match.start() - 20) : match.end() + 20]
    if not "\udc80" <= match.group() <= "\udcff":  # as utf-7 and unicode_escape let through
        return DataError(
            f"{file}, row {row}, column '{column}': half of a surrogate pair is no character, near {around!r}.",
            "If the file is in another encoding, name it, for example {encoding=utf-8}.",
        )
    near = around.encode("utf-8", "surrogateescape" if _all_bytes(around) else "backslashreplace")
    if row == 1 and cell[:2] in ("\udcff\udcfe", "\udcfe\udcff"):  # a byte order mark
        other = "utf-16"
    else:
        other = "cp1252" if codecs.lookup(encoding).name.startswith("utf") else "utf-8"
    return DataError(
        f"{file}, row {row}, column '{column}': byte 0x{ord(match.group()) & 0xFF:02x} is not {encoding}, "
        f"near {near!r}.",
        f"If the file is in another encoding, name it, for example {{encoding={other}}}.",
    )


def _all_bytes(text: str) -> bool:
    return all("\udc80" <= surrogate <= "\udcff" for surrogate in _SURROGATE.findall(text))


def undecodable_file(path: Path, row: int, encoding: str, error: UnicodeError) -> DataError:
    """Return the error for bytes that cannot even be kept as surrogates, as in a truncated UTF-16 file."""
    why = getattr(error, "reason", error)  # a missing byte order mark comes without one
    return DataError(
        f"{path.name}, after row {row}: the bytes are not {encoding} ({why}).",
        "If the file is in another encoding, name it, for example {encoding=utf-8}.",
    )
