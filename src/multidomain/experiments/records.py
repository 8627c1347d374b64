"""Records of runs: one JSON line each, with everything that tables and significance tests need."""

from __future__ import annotations

import base64
import json
import os
import re
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np

from multidomain.errors import ConfigError, DataError
from multidomain.files import lock
from multidomain.saved import parse_json
from multidomain.training.settings import RunSettings

Record: TypeAlias = dict[str, Any]


def records_file(folder: Path, table: str, split_seed: int | None = None) -> Path:
    """Return the file of a table's records; those on a new split have one of their own."""
    return folder / (f"{table}.jsonl" if split_seed is None else f"{table}-split{split_seed}.jsonl")


def new_split_seeds(folder: Path, table: str) -> list[int]:
    """Return the seeds of the new splits that a table has records on."""
    names = (re.fullmatch(rf"{table}-split(\d+)\.jsonl", path.name) for path in folder.glob("*.jsonl"))
    return sorted(int(name[1]) for name in names if name)


def pack(codes: np.ndarray) -> str:
    """Return class codes, one byte each, compressed and as ASCII."""
    return base64.b64encode(zlib.compress(codes.astype(np.uint8).tobytes(), 9)).decode("ascii")


def unpack(packed: str) -> np.ndarray:
    """Return the codes that `pack` was given."""
    return np.frombuffer(zlib.decompress(base64.b64decode(packed)), dtype=np.uint8)


def read_records(path: Path) -> list[Record]:
    """Return all records of a file, without a last line truncated by a kill."""
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            if line:
                records.append(parse_json(line.decode()))
        except ValueError:
            if number != len(lines):
                raise DataError(f"{path}, line {number}: not a record. Restore the file, or delete the line.") from None
    return records


def append_record(path: Path, record: Record) -> None:
    """Append a record to a file; a truncated last line is removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        lock(file, wait=True)  # several processes may add to one file
        file.seek(0)
        content = file.read()
        last = content[content.rfind(b"\n") + 1 :]
        if last:
            _end_line(file, last, len(content))
        file.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _end_line(file: IO[bytes], last: bytes, size: int) -> None:
    """Terminate a last line that is a complete record, and remove one that is not."""
    try:
        json.loads(last)
    except ValueError:
        file.truncate(size - len(last))
    else:
        file.write(b"\n")


def is_of(record: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Tell whether a record is of the wanted run: the same row, seed, split and settings.

    Settings are compared under their present names, and one that is newer than the record counts as standing at its
    default (decision 13). A record on a new split is of no run on the given one.
    """
    others = {name: value for name, value in wanted.items() if name != "config"}
    if record.get("split_seed") != wanted.get("split_seed") or any(record.get(n) != v for n, v in others.items()):
        return False
    return "config" not in wanted or _completed(json.dumps(record.get("config", {}))) == wanted["config"]


@cache
def _completed(config: str) -> dict[str, Any] | None:
    """Return recorded settings as they would be recorded today; None if some of them are gone."""
    try:
        return RunSettings.from_record(json.loads(config)).complete()
    except (ConfigError, KeyError):
        return None
