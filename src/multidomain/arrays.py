"""Arrays that need not fit into memory: large ones are temporary files, mapped into memory, which end with the process.

The system keeps as much of such a file in memory as there is room for, and the arithmetic is the same: what is computed
does not depend on where an array is. The files have no name, so nothing is left behind however the process ends.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike

from multidomain.errors import StorageError
from multidomain.files import out_of_space

LARGE = 1 << 28
"""Bytes from which an array is in a temporary file."""

_ROWS_AT_A_TIME = 1 << 16


def empty(n: int, dtype: DTypeLike) -> np.ndarray:
    """Return an array of `n` values to be set.

    Raises
    ------
    StorageError
        The disk has no room for it.
    """
    size = n * np.dtype(dtype).itemsize
    if size < LARGE:
        return np.empty(n, dtype)
    with _temporary_file(size) as file:
        if sys.platform == "linux":
            os.posix_fallocate(file.fileno(), 0, size)  # or a full disk would kill the process later
        else:
            file.truncate(size)
        return _mapped(file, dtype)


class ArrayWriter:
    """Makes an array of parts, one after another; a large one is written to a temporary file.

    Examples
    --------
    >>> writer = ArrayWriter(np.int32)
    >>> for part in ([1, 2], [3]):
    ...     writer.append(part)
    >>> writer.finish()
    array([1, 2, 3], dtype=int32)
    """

    def __init__(self, dtype: DTypeLike):
        self._dtype = dtype
        self._parts: list[np.ndarray] = []
        self._file: IO[bytes] | None = None
        self._size = 0

    def append(self, values: Any) -> None:
        """Add values at the end."""
        part = np.ascontiguousarray(values, dtype=self._dtype)
        self._parts.append(part)
        self._size += part.nbytes
        if self._size >= LARGE:
            self._write()

    def finish(self) -> np.ndarray:
        """Return the array."""
        if self._file is None:
            return np.concatenate([np.empty(0, self._dtype), *self._parts])
        with self._file as file:
            return _mapped(file, self._dtype)

    def _write(self) -> None:
        with _temporary_file(self._size, self._file, keep=True) as file:
            self._file = file
            for part in self._parts:
                file.write(part.data)
            file.flush()
        self._parts = []


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the numbers ``start, start + 1, ...`` of ranges, one range after another.

    Examples
    --------
    >>> ranges(np.array([7, 3]), np.array([2, 3]))
    array([7, 8, 3, 4, 5])
    """
    before = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) + np.repeat(starts - before, lengths)


def take_ranges(values: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return ``values[ranges(starts, lengths)]``; where the ranges follow each other, without a copy."""
    if not len(starts):
        return values[:0]
    if (starts[1:] == starts[:-1] + lengths[:-1]).all():
        return values[starts[0] : starts[-1] + lengths[-1]]
    taken = ArrayWriter(values.dtype)
    for some in blocks(len(starts)):
        taken.append(values[ranges(starts[some], lengths[some])])
    return taken.finish()


def blocks(n: int, size: int = _ROWS_AT_A_TIME) -> Iterator[slice]:
    """Yield `n` rows in parts, whose temporary arrays are small."""
    for start in range(0, n, size):
        yield slice(start, min(n, start + size))


def looked_up(table: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return ``table[numbers]``."""
    found = empty(len(numbers), table.dtype)
    for some in blocks(len(numbers), 1 << 22):
        np.take(table, numbers[some], out=found[some])
    return found


def joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return arrays of one type, one after another."""
    writer = ArrayWriter(arrays[0].dtype)
    for array in arrays:
        for some in blocks(len(array), 1 << 22):
            writer.append(array[some])
    return writer.finish()


@contextmanager
def _temporary_file(size: int, file: IO[bytes] | None = None, keep: bool = False) -> Iterator[IO[bytes]]:
    """Yield a file that has no name, a new one unless there is one; it is closed at the end unless it is to be kept."""
    try:
        file = tempfile.TemporaryFile() if file is None else file  # noqa: SIM115  # it outlives this function
        yield file
    except OSError as error:
        keep = False
        folder = tempfile.gettempdir()
        why = out_of_space(error, f"{size / 1e9:,.1f} GB of temporary files to {folder}")
        hint = "Name a folder on a larger disk in the environment variable TMPDIR."
        raise StorageError(str(why or f"Cannot write temporary files to {folder}: {error.strerror}."), hint) from error
    finally:
        if file is not None and not keep:
            file.close()


def _mapped(file: IO[bytes], dtype: DTypeLike) -> np.ndarray:
    return np.asarray(np.memmap(file, dtype, mode="r+"))
