"""Regular rows are read many at a time, and nothing else tells them from rows that are read one by one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from multidomain.data.readers.base import Chunk
from multidomain.data.readers.delimited import DelimitedTable
from multidomain.errors import DataError

PIECES = ["a,1\n", "b,2\n", "\n", "c\n", "d,3,4\n", '"e,5",6\n', '"f\ng",7\r\n', '"h,8\n', "\r", "é,9\n", '"",\n', "x"]


def rows_of(chunks: Iterator[Chunk]) -> tuple[list[tuple[int, str, str]], str]:
    """All rows with their numbers, and what the error says, if there is one."""
    rows: list[tuple[int, str, str]] = []
    try:
        for chunk in chunks:
            numbers = range(chunk.first_row, chunk.first_row + len(chunk))
            rows += zip(numbers, chunk.values["text"], chunk.values["label"], strict=True)
    except DataError as error:
        return rows, str(error)
    return rows, ""


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=12), size=st.integers(1, 4), bad_byte=st.booleans())
def test_however_rows_are_read(pieces: list[str], size: int, bad_byte: bool, tmp_path: Path):
    path = tmp_path / "table.csv"
    path.write_bytes(("\ntext,label\n" + "".join(pieces)).encode() + (b"\xff,1\n" if bad_byte else b""))
    table = DelimitedTable(path, "utf-8", ",")
    in_bulk, said = rows_of(table._chunks(size))
    one_by_one, expected = rows_of(table._row_by_row(size, first=3))
    assert said == expected
    if said:  # a chunk that is cut short by an error is not given
        shorter = min(len(in_bulk), len(one_by_one))
        assert in_bulk[:shorter] == one_by_one[:shorter]
    else:
        assert in_bulk == one_by_one


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16", "utf-7"])
def test_all_encodings_give_all_rows(encoding: str, tmp_path: Path):
    path = tmp_path / "table.csv"
    path.write_bytes("".join(["text,label\n", *(f"caf\u00e9 {i},{i}\n" for i in range(10))]).encode(encoding))
    rows, said = rows_of(DelimitedTable(path, encoding, ",").chunks(3))
    assert (rows, said) == ([(i + 2, f"caf\u00e9 {i}", str(i)) for i in range(10)], "")
