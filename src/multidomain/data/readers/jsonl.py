"""JSON lines: one object per line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from multidomain.data.readers.base import (
    CHUNK_SIZE,
    Chunk,
    ChunkBuilder,
    Table,
    has_surrogate,
    open_text,
    undecodable,
    undecodable_file,
)
from multidomain.errors import DataError
from multidomain.saved import has_half_pair, parse_json

_MOST_COLUMNS = 10_000  # a row has a cell for each


class JsonLinesTable(Table):
    """JSON lines; the columns are all keys that occur, and a missing key is None.

    Parameters
    ----------
    path
        The file.
    encoding
        Its text encoding.
    """

    def __init__(self, path: Path, encoding: str) -> None:
        super().__init__(path, [])
        self._encoding = encoding
        # The whole file is read once for its keys: if unlabelled rows come first, `label` may appear at any
        # row.
        keys: dict[str, None] = {}
        self._n_rows = 0
        for _, record in self._records():
            self._n_rows += 1
            keys.update(dict.fromkeys(record))
            if len(keys) > _MOST_COLUMNS:
                raise DataError(
                    f"{path.name} has more than {_MOST_COLUMNS:,} different keys. Expected the same few in each row.",
                    "Put what varies into a value.",
                )
        if not keys:
            raise DataError(f"{path.name} is empty. Expected one JSON object a line.")
        self.columns = list(keys)

    def estimated_chunks(self, size: int = CHUNK_SIZE) -> int:
        return -(-self._n_rows // size)

    def _chunks(self, size: int) -> Iterator[Chunk]:
        builder = ChunkBuilder(self.columns, size)
        for row, record in self._records():
            if ended := builder.add(row, [record.get(column) for column in self.columns]):
                yield ended
        if rest := builder.rest():
            yield rest

    def _records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        row = 0
        try:
            with open_text(self.path, self._encoding) as file:
                for row, line in enumerate(file, start=1):
                    if not line.isspace():
                        yield row, self._parse(row, line)
        except UnicodeError as error:
            raise undecodable_file(self.path, row, self._encoding, error) from None

    def _parse(self, row: int, line: str) -> dict[str, Any]:
        try:
            record = parse_json(line)
        except ValueError as error:
            if has_surrogate(line):
                raise undecodable(self.path.name, row, "?", line, self._encoding) from None
            raise DataError(f"{self.path.name}, row {row} is not JSON: {error}.") from None
        if not isinstance(record, dict):
            raise DataError(
                f"{self.path.name}, row {row}: expected a JSON object such as "
                f'{{"text": "...", "label": "..."}}, got {type(record).__name__}.'
            )
        if has_surrogate(line):
            self._raise_undecodable(row, line, record)
        if "\\u" in line:
            self._check_escapes(row, record)
        return record

    def _raise_undecodable(self, row: int, line: str, record: dict[str, Any]) -> None:
        for column, value in record.items():
            if isinstance(value, str) and has_surrogate(value) and not has_surrogate(column):
                raise undecodable(self.path.name, row, column, value, self._encoding)
        raise undecodable(self.path.name, row, "?", line, self._encoding)

    def _check_escapes(self, row: int, record: dict[str, Any]) -> None:
        # A text truncated inside an emoji; it can be neither written as UTF-8 nor saved with a model.
        for column, value in record.items():
            if has_half_pair([column, value]):
                where = "a name of a column" if has_half_pair(column) else f"column '{column}'"
                raise DataError(
                    f"{self.path.name}, row {row}, {where}: the text holds half of a surrogate pair (an escape such as "
                    r"\ud83d with no second half), which is no character. Remove it."
                )
