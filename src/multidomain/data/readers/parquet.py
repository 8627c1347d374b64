"""Parquet."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from multidomain.data.readers.base import CHUNK_SIZE, Chunk, Table
from multidomain.errors import DataError
from multidomain.files import out_of_space

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
        with reading_parquet(path):
            columns = list(pl.read_parquet_schema(path))
        super().__init__(path, columns)

    def estimated_chunks(self, size: int = CHUNK_SIZE) -> int:
        with _panics_unsaid():
            try:
                rows = int(pl.scan_parquet(self.path, glob=False).select(pl.len()).collect().item())
            except _FAILURES:  # reading the rows says why
                return 0
        return -(-rows // size)

    def _chunks(self, size: int) -> Iterator[Chunk]:
        return self.chunks_of(self.columns, size)

    def chunks_of(self, columns: Sequence[str], size: int = CHUNK_SIZE) -> Iterator[Chunk]:
        """Yield some columns of all rows, at most `size` rows at a time; nothing if there is no row."""
        offset = 0
        while True:
            with reading_parquet(self.path, f", after row {offset}"):
                rows = pl.scan_parquet(self.path, glob=False).select(columns).slice(offset, _SLICE).collect()
            for part in rows.iter_slices(size):
                yield Chunk(offset + 1, part.to_dict(as_series=False))
                offset += part.height
            if rows.height < _SLICE:
                return


@contextmanager
def reading_parquet(path: Path, where: str = "", doing: str = "read as Parquet") -> Iterator[None]:
    """Turn what polars raises over a damaged file into an error that names the file and where in it that is."""
    try:
        with _panics_unsaid():
            yield
    except _FAILURES as error:
        if out_of_space(error, ""):  # of what is written meanwhile
            raise
        why = " ".join(str(error).split())[:300]
        raise DataError(f"{path.name}{where} cannot be {doing}: {why}.", "Copy or write the file again.") from None


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
