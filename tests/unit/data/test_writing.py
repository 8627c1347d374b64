"""Tables come back as they were written, whoever reads them; where they cannot be written it is said."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from multidomain.data.readers.tables import open_table
from multidomain.data.writing import check_writable, table_writer
from multidomain.errors import ConfigError, StorageError

COLUMNS = ("text", "domain", "label")
HOSTILE = [
    "\r",
    "\n",
    "\r\n",
    '"',
    ",",
    "\t",
    "=",
    "+",
    "-",
    "@",
    "'",
    " ",
    "\0",
    "\ufeff",
    "\x1a",
    "\x85",
    "\u2028",
    "\\",
]

cells = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.lists(st.sampled_from([*HOSTILE, "a", "é", "書", "🎉"]), max_size=6).map("".join),
)
tables = st.lists(st.lists(cells, min_size=3, max_size=3), min_size=1, max_size=6)
Rows = list[list[str]]


def read_by_csv(path: Path) -> Rows:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ",", strict=True))[1:]


def read_by_polars(path: Path) -> Rows:
    separator = "\t" if path.suffix == ".tsv" else ","
    table = pl.read_csv(path, separator=separator, infer_schema=False)
    return [list(row) for row in table.fill_null("").rows()]  # to polars an empty cell is a missing one


def read_by_us(path: Path) -> Rows:
    return [list(row) for chunk in open_table(path).chunks(2) for row in zip(*chunk.values.values(), strict=True)]


def read_by_json(path: Path) -> Rows:
    return [list(json.loads(line).values()) for line in path.read_bytes().split(b"\n")[:-1]]


def read_ndjson_by_polars(path: Path) -> Rows:
    return [list(row) for row in pl.read_ndjson(path, schema=dict.fromkeys(COLUMNS, pl.String)).rows()]


def written(rows: Rows, suffix: str, read: Callable[[Path], Rows], **options: bool) -> Rows:
    """Write rows in two parts, and read them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"table{suffix}")
        with table_writer(path, COLUMNS, **options) as write:
            write(rows[:1])
            write(rows[1:])
        return read(path)


@pytest.mark.parametrize(
    ("suffix", "read"),
    [
        *((suffix, read) for suffix in (".csv", ".tsv") for read in (read_by_csv, read_by_polars, read_by_us)),
        *((".jsonl", read) for read in (read_by_json, read_ndjson_by_polars, read_by_us)),
    ],
)
@settings(max_examples=100, deadline=None)
@given(rows=tables)
@example(rows=[["a\rb", "books", "good"], ["c", "\r", "bad"]])
@example(rows=[["", "", ""], ["\n", "", "\r\n"]])
def test_rows_come_back(suffix: str, read: Callable[[Path], Rows], rows: Rows):
    assert written(rows, suffix, read) == rows


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_a_lone_carriage_return_is_no_new_row(suffix: str):
    rows = [["a\rb", "books", "good"], ["c", "\r", "bad"]]
    assert written(rows, suffix, read_by_csv) == rows


def test_lines_end_in_a_line_feed_and_only_what_needs_quotes_has_them(tmp_path: Path):
    with table_writer(tmp_path / "a.csv", ["a", "b"]) as write:
        write([["x", 1], [None, 0.5], ["y, z", True]])
    assert (tmp_path / "a.csv").read_bytes() == b'a,b\nx,1\n,0.5\n"y, z",True\n'


@settings(max_examples=100, deadline=None)
@given(rows=tables, suffix=st.sampled_from([".csv", ".tsv"]))
@example(rows=[["=1+1", "+cmd|' /C calc'!A0", "-bad"], ["@SUM(1)", "\t=1", "\r=1"]], suffix=".csv")
@example(rows=[["-5", "+1.5e3", "-.5"], ["-5 stars", "-1e", "+"]], suffix=".tsv")
def test_formulas_get_an_apostrophe_where_that_is_asked_for(rows: Rows, suffix: str):
    for row, found in zip(rows, written(rows, suffix, read_by_csv, escape_formulas=True), strict=True):
        for cell, escaped in zip(row, found, strict=True):
            assert escaped in (cell, f"'{cell}")
            assert (escaped != cell) == (cell[:1] in set("=+-@\t\r") and not is_number(cell)), cell


def is_number(cell: str) -> bool:
    """Whether a cell that begins with a sign is a plain number."""
    digits = cell[1:].lower().replace("e+", "e").replace("e-", "e")
    return cell[0] in "+-" and set(digits) <= set("0123456789.e") and digits[:1] != "e" and _parses(cell)


def _parses(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def test_column_names_may_be_formulas_and_numbers_stay_numbers(tmp_path: Path):
    with table_writer(tmp_path / "a.csv", ["=a", "b"], escape_formulas=True) as write:
        write([[-1, -0.5], ["-1", None]])
    assert (tmp_path / "a.csv").read_bytes() == b"'=a,b\n-1,-0.5\n-1,\n"
    with table_writer(tmp_path / "a.jsonl", ["=a"], escape_formulas=True) as write:
        write([["=1"]])
    assert json.loads((tmp_path / "a.jsonl").read_bytes()) == {"=a": "=1"}, "JSON lines are not opened as spreadsheets"


def test_json_has_no_infinity(tmp_path: Path):
    with table_writer(tmp_path / "a.jsonl", ["a", "b"]) as write:
        write([[float("inf"), {"x": [float("nan"), 1.5]}], [float("nan"), "NaN"]])
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    found = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert found == [{"a": None, "b": {"x": [None, 1.5]}}, {"a": None, "b": "NaN"}]


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-16"])
def test_json_lines_hold_every_character_in_every_encoding(encoding: str, tmp_path: Path):
    with table_writer(tmp_path / "a.jsonl", ["a"], encoding) as write:
        write([["é書🎉"]])
    (row,) = (row for chunk in open_table(tmp_path / "a.jsonl", encoding).chunks() for row in chunk.values["a"])
    assert row == "é書🎉"


@pytest.mark.parametrize(
    ("encoding", "cell", "message"),
    [
        (
            "cp1252",
            "書",
            r"a\.csv, row 3: the character '書' is not in cp1252\. Choose encoding='utf-8', or an output in",
        ),
        ("utf-8", "\ud83d", r"a\.csv, row 3: the character '\\ud83d' is not in utf-8\. Remove it: it is half of a"),
    ],
)
def test_a_character_that_the_encoding_does_not_have(encoding: str, cell: str, message: str, tmp_path: Path):
    path = tmp_path / "a.csv"
    path.write_text("old")
    with pytest.raises(StorageError, match=message), table_writer(path, ["a"], encoding) as write:
        write([["fine"], [f"so {cell}"]])
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_encoding_that_does_not_exist(tmp_path: Path):
    with (
        pytest.raises(ConfigError, match=r"'base64' is not the name of a text encoding\. Choose encoding='utf-8'\."),
        table_writer(tmp_path / "a.csv", ["a"], "base64"),
    ):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("make", "message"), [(Path.mkdir, "it is a folder"), (lambda path: os.mkfifo(path), "it is not a regular file")]
)
def test_what_is_no_file_is_left_alone(make: Callable[[Path], None], message: str, tmp_path: Path):
    path = tmp_path / "a.csv"
    make(path)
    mode = path.stat().st_mode
    with pytest.raises(ConfigError, match=rf"Cannot write '.*a\.csv': {message}\."), table_writer(path, ["a"]):
        pass
    assert path.stat().st_mode == mode and list(tmp_path.iterdir()) == [path]


def test_standard_output_may_be_a_text_in_memory():
    with redirect_stdout(io.StringIO()) as text, table_writer(None, ["a"]) as write:
        write([["é\r"]])
    assert text.getvalue() == 'a\n"é\r"\n'


SCRIPT = """
import sys
from multidomain.data.writing import table_writer
from multidomain.errors import StorageError
try:
    with table_writer(None, ["a"]) as write:
        write([[sys.argv[1]]])
except StorageError as error:
    sys.exit(str(error))
"""


@pytest.mark.parametrize(
    ("cell", "file", "encoding", "message"),
    [
        ("few", "/dev/full", "utf-8", "No space left on the disk while writing standard output."),
        ("many" * 10_000, "/dev/full", "utf-8", "No space left on the disk while writing standard output."),
        ("書", os.devnull, "ascii", r"standard output, row 2: the character '\u66f8' is not in ascii."),
    ],
)
def test_standard_output_that_cannot_take_it(cell: str, file: str, encoding: str, message: str):
    """Also if it fits into the buffer, which Python empties only at its end."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "", "PYTHONIOENCODING": encoding}
    with Path(file).open("w") as out:
        command = [sys.executable, "-c", SCRIPT, cell]
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith(message) and done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["out.xlsx", "out", "out.parquet"])
def test_a_table_of_another_format_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"its name must end in '\.csv', '\.tsv', '\.jsonl', '\.ndjson'"):
        check_writable(tmp_path / name)


def test_keys_inside_a_cell_keep_their_order(tmp_path: Path) -> None:
    with table_writer(tmp_path / "out.jsonl", ["cell"]) as write:
        write([[{"b": 1.5, "a": [2.0, math.nan]}]])
    assert (tmp_path / "out.jsonl").read_text() == '{"cell": {"b": 1.5, "a": [2.0, null]}}\n'


def test_text_that_is_formatted_already_is_taken_where_no_cell_is_changed(tmp_path: Path):
    for name, escape, delimiter in (("a.csv", False, ","), ("a.tsv", False, "\t"), ("a.csv", True, None)):
        with table_writer(tmp_path / name, ["a"], escape_formulas=escape) as write:
            assert write.delimiter == delimiter


def test_standard_output_that_is_closed_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(StorageError, match=r"^Standard output is closed"), table_writer(None, ["a"]):
        pass
