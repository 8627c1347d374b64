"""Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from multidomain.data.readers.base import Chunk, Table
from multidomain.errors import DataError

# Reading a slice decodes every row group it touches, so small slices would decode the same group many times.
_SLICE = 65_536


class ParquetTable(Table):
    """Parquet, read in slices.

    Parameters
    ----------
    path
        The file.
    """

    def __init__(self, path: Path) -> None:
        try:
            columns = list(pl.read_parquet_schema(path))
        except (pl.exceptions.PolarsError, OSError) as error:
            raise DataError(f"{path.name} cannot be read as Parquet: {error}") from None
        super().__init__(path, columns)

    def _chunks(self, size: int) -> Iterator[Chunk]:
        offset = 0
        while True:
            try:
                rows = pl.scan_parquet(self.path, glob=False).slice(offset, _SLICE).collect()
            except (pl.exceptions.PolarsError, OSError) as error:
                raise DataError(f"{self.path.name}, after row {offset}: {error}") from None
            for part in rows.iter_slices(size):
                yield Chunk(offset + 1, part.to_dict(as_series=False))
                offset += part.height
            if rows.height < _SLICE:
                return
