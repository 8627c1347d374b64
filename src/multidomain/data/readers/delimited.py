"""CSV and TSV."""

from __future__ import annotations

import codecs
import csv
from collections import Counter, deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from multidomain.data.readers.base import (
    CellBlock,
    Chunk,
    ChunkBuilder,
    Table,
    has_surrogate,
    open_text,
    undecodable,
    undecodable_file,
)
from multidomain.errors import DataError, counted, quoted

# A larger cell is nearly always an unclosed quote; without a limit it would swallow the rest of the file and
# fill the memory.
_LARGEST_CELL = 2**26
_LARGE_FILE = 2_000_000  # bytes from which on importing numba pays
_STRICT = ("utf-8", "utf-8-sig", "ascii", "cp1252", "iso8859-1")  # let no half of a surrogate pair through


class DelimitedTable(Table):
    """CSV or TSV with a header; quoted cells may hold line breaks.

    Parameters
    ----------
    path
        The file.
    encoding
        Its text encoding.
    delimiter
        Cell separator.
    """

    def __init__(self, path: Path, encoding: str, delimiter: str) -> None:
        super().__init__(path, [])
        self._encoding = encoding
        self._delimiter = delimiter
        header = next(self._records(), None)
        if header is None:
            raise DataError(f"{path.name} is empty. Expected a header with column names and at least one row.")
        self._header_row = header[0]
        self.columns = _checked_header(header[1], path.name)

    def _blocks(self, size: int) -> Iterator[Chunk | CellBlock]:
        """Yield blocks of regular rows by compiled code; a small file, and what follows an irregular row, by `csv`."""
        first = self._header_row + 1
        is_utf8 = codecs.lookup(self._encoding).name in ("utf-8", "utf-8-sig")
        if is_utf8 and self._header_row == 1 and self.path.stat().st_size >= _LARGE_FILE:
            from multidomain.data.readers.cells import read_blocks  # imported here: small files must not load numba

            for block in read_blocks(self.path, self._delimiter, self.columns, size):
                if block is None:
                    break
                yield block
                first += len(block)
            else:
                return
        yield from self._from_row(first, size)

    def _chunks(self, size: int) -> Iterator[Chunk]:
        return self._from_row(self._header_row + 1, size)

    def _from_row(self, first: int, size: int) -> Iterator[Chunk]:
        """Yield whole chunks of regular rows; from one that is not on, go row by row."""
        n_columns = len(self.columns)
        if codecs.lookup(self._encoding).name not in _STRICT:
            yield from self._row_by_row(size, first)
            return
        csv.field_size_limit(_LARGEST_CELL)
        with open_text(self.path, self._encoding, errors="strict") as file:
            reader = csv.reader(file, delimiter=self._delimiter, strict=True)
            try:
                deque(islice(reader, first - 1), maxlen=0)
                while rows := list(islice(reader, size)):
                    if set(map(len, rows)) != {n_columns}:
                        break
                    yield Chunk(first, dict(zip(self.columns, map(list, zip(*rows, strict=True)), strict=True)))
                    first += len(rows)
                else:
                    return
            except (csv.Error, UnicodeError):  # it is found, and told, row by row
                pass
        yield from self._row_by_row(size, first)

    def _row_by_row(self, size: int, first: int) -> Iterator[Chunk]:
        builder = ChunkBuilder(self.columns, size)
        for row, cells in self._records():
            if row < first:
                continue
            if len(cells) != len(self.columns):
                raise DataError(
                    f"{self.path.name}, row {row} has {counted(len(cells), 'cell')}, expected "
                    f"{len(self.columns)} ({quoted(self.columns)}). A text that holds the separator or a "
                    'line break must stand in double quotes ("), and a quote inside it must be doubled.'
                )
            if ended := builder.add(row, cells):
                yield ended
        if rest := builder.rest():
            yield rest

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield row number and cells, including the header; blank lines are counted but skipped."""
        header_seen = False
        blank_rows: list[int] = []
        for row, cells in enumerate(self._parsed(), start=1):
            if not cells:
                blank_rows.append(row)
                continue
            # In a one-column table a blank line is an empty row, unless it ends the file.
            if header_seen and len(cells) == 1:
                yield from ((blank, [""]) for blank in blank_rows)
            blank_rows = []
            header_seen = True
            yield row, cells

    def _parsed(self) -> Iterator[list[str]]:
        csv.field_size_limit(_LARGEST_CELL)
        row = 0
        with open_text(self.path, self._encoding) as file:
            lines = _WatchedLines(file)
            reader = csv.reader(lines, delimiter=self._delimiter, strict=True)
            while True:
                try:
                    cells = next(reader)
                except StopIteration:
                    return
                except csv.Error as error:
                    raise DataError(_quoting_fault(self.path.name, row + 1, error)) from None
                except UnicodeError as error:
                    raise undecodable_file(self.path, row, self._encoding, error) from None
                row += 1
                if lines.suspicious:
                    self._raise_undecodable(row, cells)
                yield cells

    def _raise_undecodable(self, row: int, cells: list[str]) -> None:
        at = next(i for i, cell in enumerate(cells) if has_surrogate(cell))
        column = self.columns[at] if at < len(self.columns) else str(at + 1)
        raise undecodable(self.path.name, row, column, cells[at], self._encoding)


class _WatchedLines:
    """Passes lines to the CSV reader and records whether one had an undecodable byte.

    Checking whole lines is several times cheaper than checking every cell.
    """

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self.suspicious = False

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        if has_surrogate(line):
            self.suspicious = True
        return line


def _checked_header(cells: list[str], file: str) -> list[str]:
    # Tables saved with an unnamed index have an unnamed first column.
    names = [cell.strip() or f"column {i}" for i, cell in enumerate(cells, start=1)]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(f"{file} has more than one column named {quoted(twice)}. Rename all but one.")
    return names


def _quoting_fault(file: str, row: int, error: csv.Error) -> str:
    if "unexpected end" in str(error) or "field larger" in str(error):
        fault = "a double quote opens a cell and is never closed"
    else:
        fault = f"the double quotes do not match ({error})"
    return f"{file}, row {row}: {fault}. Inside a quoted cell write each quote twice, or save the table as JSON lines."
