"""Tables written as CSV, TSV or JSON lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from multidomain.errors import ConfigError, quoted
from multidomain.files import whole_file

WRITABLE = (".csv", ".tsv", ".jsonl", ".ndjson")


def check_writable(path: Path) -> None:
    """Check that the suffix is one of a table that can be written."""
    if path.suffix.lower() not in WRITABLE:
        raise ConfigError(f"Cannot write '{path.name}': its name must end in {quoted(WRITABLE)}.")


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]], encoding: str = "utf-8") -> None:
    """Write a table atomically, in the format of its suffix."""
    check_writable(path)
    with whole_file(path) as temporary, temporary.open("w", encoding=encoding, newline="") as file:
        if path.suffix.lower() in (".jsonl", ".ndjson"):
            for row in rows:
                file.write(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n")
        else:
            delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
            writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
            writer.writerows([columns, *rows])
