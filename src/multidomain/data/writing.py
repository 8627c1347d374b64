"""Tables written as CSV, TSV or JSON lines."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, TypeAlias

from multidomain.errors import ConfigError, quoted
from multidomain.files import whole_file

WRITABLE = (".csv", ".tsv", ".jsonl", ".ndjson")
_JSON = (".jsonl", ".ndjson")

WriteRows: TypeAlias = Callable[[Iterable[Sequence[Any]]], None]


def check_writable(path: Path) -> None:
    """Check that the suffix is one of a table that can be written."""
    if path.suffix.lower() not in WRITABLE:
        raise ConfigError(f"Cannot write '{path.name}': its name must end in {quoted(WRITABLE)}.")


@contextmanager
def table_writer(path: Path | None, columns: Sequence[str], encoding: str = "utf-8") -> Iterator[WriteRows]:
    """Open a table and give a function that writes rows to it, some at a time.

    Parameters
    ----------
    path
        Written atomically, in the format of its suffix; None is standard output, as CSV.
    """
    if path is None:
        yield _writer(sys.stdout, ".csv", columns)
        return
    check_writable(path)
    with whole_file(path) as temporary, temporary.open("w", encoding=encoding, newline="") as file:
        yield _writer(file, path.suffix.lower(), columns)


def _writer(file: TextIO, suffix: str, columns: Sequence[str]) -> WriteRows:
    if suffix in _JSON:

        def write(rows: Iterable[Sequence[Any]]) -> None:
            for row in rows:
                values = [None if cell != cell else cell for cell in row]  # JSON has no NaN
                pairs = dict(zip(columns, values, strict=True))
                file.write(json.dumps(pairs, ensure_ascii=False, default=str) + "\n")

        return write
    writer = csv.writer(file, delimiter="\t" if suffix == ".tsv" else ",", lineterminator="\n")
    writer.writerow(columns)
    return writer.writerows
