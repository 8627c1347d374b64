"""Opening tables, for training and for prediction on files of any size."""

from __future__ import annotations

from pathlib import Path

from multidomain.data.columns import Columns
from multidomain.data.readers.base import Chunk, Table
from multidomain.data.readers.delimited import DelimitedTable
from multidomain.data.readers.jsonl import JsonLinesTable
from multidomain.data.readers.parquet import ParquetTable
from multidomain.errors import DataError, quoted

__all__ = ["TABLE_SUFFIXES", "Chunk", "Columns", "Table", "open_table"]

TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")


def open_table(path: str | Path, encoding: str = "utf-8") -> Table:
    """Open a CSV, TSV, JSON lines or Parquet file, by its suffix.

    Parameters
    ----------
    path
        The file.
    encoding
        Text encoding of CSV, TSV and JSON lines.

    Raises
    ------
    DataError
        The file is missing, empty or of another type.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"There is no file '{path}'. Check the path.")
    if path.stat().st_size == 0:
        raise DataError(f"{path.name} is empty. Expected a table with at least one row.")
    match path.suffix.lower():
        case ".csv":
            return DelimitedTable(path, encoding, ",")
        case ".tsv":
            return DelimitedTable(path, encoding, "\t")
        case ".jsonl" | ".ndjson":
            return JsonLinesTable(path, encoding)
        case ".parquet":
            return ParquetTable(path)
    raise DataError(
        f"{path.name}: the suffix '{path.suffix}' is not one of a table. Expected {quoted(TABLE_SUFFIXES)}."
    )
