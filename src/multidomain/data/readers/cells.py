"""Rows of CSV and TSV in blocks, read by compiled code."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from multidomain.data.readers.base import CellBlock
from multidomain.kernels.cells import split_rows

_READ = 2**20
_LARGEST = 2**26  # bytes of a cell; whether it may be larger is for `csv` to say


def read_blocks(path: Path, delimiter: str, columns: list[str], size: int) -> Iterator[CellBlock | None]:
    """Yield the rows after the header, `size` at a time; None, and nothing more, from a block on that is not regular.

    A row is regular if it has a cell for each column, its quotes match, it ends in LF or CR LF and it is valid UTF-8.

    Parameters
    ----------
    path
        A file in UTF-8 whose first line is the header.
    """
    with path.open("rb") as file:
        rows = _Rows(file, delimiter, columns)
        block = rows.take(1)
        while block is not None and (block := rows.take(size)):
            yield block
    if block is None:
        yield None


class _Rows:
    """Rows that are read when they are wanted."""

    def __init__(self, file: BinaryIO, delimiter: str, columns: list[str]) -> None:
        self._file = file
        self._delimiter = ord(delimiter)
        self._columns = columns
        self._data, self._is_whole = b"", False
        self._read(_READ)
        self._data = self._data.removeprefix(codecs.BOM_UTF8)
        self._wanted = 0  # bytes that most rows are likely to take

    def take(self, most: int) -> CellBlock | None:
        """Return the next rows, fewer only at the end; None if one of them is not regular."""
        while True:
            self._read(self._wanted - len(self._data))
            data = np.frombuffer(self._data, dtype=np.uint8)
            utf8, starts, end, is_regular = split_rows(data, self._delimiter, len(self._columns), most)
            block = CellBlock(self._columns, utf8, starts)
            if len(block) == most or (self._is_whole and end == len(data)):
                break
            if not is_regular or self._is_whole or len(data) - end > _LARGEST:
                return None
            self._wanted = 2 * len(data)
        is_valid = _is_utf8(self._data[:end]) and np.diff(starts).max(initial=0) <= _LARGEST
        self._data, self._wanted = self._data[end:], end + end // 4
        return block if is_valid else None

    def _read(self, size: int) -> None:
        """Read more of the file, at least `size` bytes; its last line gets an end if it has none."""
        if size <= 0 or self._is_whole:
            return
        size = max(size, _READ)
        more = self._file.read(size)
        self._data += more
        self._is_whole = len(more) < size
        if self._is_whole and self._data and not self._data.endswith(b"\n"):
            self._data += b"\n"


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeError:
        return False
    return True
