"""Parquet."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from multidomain.data.readers.base import CHUNK_SIZE, Chunk, Table
from multidomain.errors import DataError

# Reading a slice decodes every row group it touches, so small slices would decode the same group many times.
_SLICE = 65_536
# Polars panics, which is no Exception, where it trusts a damaged file.
_FAILURES = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError, OverflowError)


class ParquetTable(Table):
    """Parquet, read in slices.

    Parameters
    ----------
    path
        The file.
    """

    def __init__(self, path: Path) -> None:
        try:
            with _panics_unsaid():
                columns = list(pl.read_parquet_schema(path))
        except _FAILURES as error:
            raise _unreadable(path, "", error) from None
        super().__init__(path, columns)

    def estimated_chunks(self, size: int = CHUNK_SIZE) -> int:
        with _panics_unsaid():
            try:
                rows = int(pl.scan_parquet(self.path, glob=False).select(pl.len()).collect().item())
            except _FAILURES:  # reading the rows says why
                return 0
        return -(-rows // size)

    def _chunks(self, size: int) -> Iterator[Chunk]:
        offset = 0
        while True:
            try:
                with _panics_unsaid():
                    rows = pl.scan_parquet(self.path, glob=False).slice(offset, _SLICE).collect()
            except _FAILURES as error:
                raise _unreadable(self.path, f", after row {offset}", error) from None
            for part in rows.iter_slices(size):
                yield Chunk(offset + 1, part.to_dict(as_series=False))
                offset += part.height
            if rows.height < _SLICE:
                return


@contextmanager
def _panics_unsaid() -> Iterator[None]:
    """Keep polars' own message of a panic, which holds a backtrace, from standard error: the error says the same."""
    try:
        kept = os.dup(2)
    except OSError:  # standard error is closed
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _unreadable(path: Path, where: str, error: BaseException) -> DataError:
    why = " ".join(str(error).split())[:300]
    return DataError(f"{path.name}{where} cannot be read as Parquet: {why}.", "Copy or write the file again.")
