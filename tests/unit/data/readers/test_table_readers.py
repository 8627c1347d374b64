"""Tables: formats, row numbers, columns, and what is wrong with a file."""

import json
import tracemalloc

import polars as pl
import pytest

from multidomain.data.columns import Columns
from multidomain.data.readers.tables import open_table
from multidomain.errors import ConfigError, DataError


def rows_of(table, size=2):
    """All rows as (row number, cells), through chunks of a small size."""
    return [
        (chunk.first_row + i, tuple(chunk.values[name][i] for name in table.columns))
        for chunk in table.chunks(size)
        for i in range(len(chunk))
    ]


def test_csv_with_quotes_line_breaks_and_a_byte_order_mark(write):
    path = write("a.csv", b'\xef\xbb\xbftext,label\r\n"one, ""two""\nthree",x\r\nplain \xc3\xa9,y\r\nlast,\r\n')
    table = open_table(path)
    assert table.columns == ["text", "label"]
    assert rows_of(table) == [(2, ('one, "two"\nthree', "x")), (3, ("plain é", "y")), (4, ("last", ""))]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 100])
def test_chunks_cover_all_rows_in_order(write, size):
    table = open_table(write("a.csv", "t\n" + "".join(f"{i}\n" for i in range(5))))
    chunks = list(table.chunks(size))
    assert [len(c) for c in chunks] == [min(size, 5 - i) for i in range(0, 5, size)]
    assert rows_of(table, size) == [(i + 2, (str(i),)) for i in range(5)]


def test_a_table_can_be_read_twice(write):
    table = open_table(write("a.csv", "t,l\na,b\n"))
    assert rows_of(table) == rows_of(table)


def test_blank_lines_keep_row_numbers(write):
    table = open_table(write("a.csv", "\n\nt,l\na,b\n\n\nc,d\n\n"))
    assert rows_of(table) == [(4, ("a", "b")), (7, ("c", "d"))]


def test_blank_lines_in_one_column_are_empty_rows_unless_they_end_the_file(write):
    table = open_table(write("a.csv", "\n\nt\na\n\nb\n\n\n"))
    assert rows_of(table) == [(4, ("a",)), (5, ("",)), (6, ("b",))]


def test_tsv_and_unnamed_column(write):
    table = open_table(write("a.TSV", "\ttext\n0\ta, b\n"))
    assert table.columns == ["column 1", "text"]
    assert rows_of(table) == [(2, ("0", "a, b"))]


def test_json_lines_take_keys_from_all_rows(write):
    lines = [{"text": "a"}, {"text": "b\nc", "label": 1}]
    table = open_table(write("a.jsonl", "\n".join(json.dumps(x) for x in lines) + "\n\n" + '{"label": null}'))
    assert table.columns == ["text", "label"]
    assert rows_of(table) == [(1, ("a", None)), (2, ("b\nc", 1)), (4, (None, None))]


def test_parquet_in_slices(tmp_path, monkeypatch):
    monkeypatch.setattr("multidomain.data.readers.parquet._SLICE", 4)
    for n in (7, 8):
        frame = pl.DataFrame({"text": [f"t{i}" for i in range(n)], "label": [None, 1] * (n // 2) + [None] * (n % 2)})
        frame.write_parquet(tmp_path / "a.parquet")
        rows = rows_of(open_table(tmp_path / "a.parquet"), size=3)
        assert [r for r, _ in rows] == list(range(1, n + 1))
        assert [cells for _, cells in rows] == frame.rows()


def test_cells_beyond_the_csv_default_limit(write):
    text = "x" * 1_000_000
    assert rows_of(open_table(write("a.csv", f"t,l\n{text},y\n"))) == [(2, (text, "y"))]


def test_memory_does_not_grow_with_the_file(write):
    table = open_table(write("a.csv", "text,label\n" + "some words in a row,good\n" * 60_000))
    tracemalloc.start()
    assert sum(len(chunk) for chunk in table.chunks(1000)) == 60_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_500_000


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", r"a\.csv is empty"),
        ("a.csv", "\n\n", r"a\.csv is empty\. Expected a header"),
        ("a.csv", "\ufeff", r"a\.csv is empty"),
        ("a.jsonl", "\n", r"a\.jsonl is empty\. Expected one JSON object a line"),
        ("a.xlsx", "x", r"a\.xlsx: the suffix '\.xlsx' is not one of a table\. Expected '\.csv', '\.tsv'"),
        ("a.parquet", "no parquet", r"a\.parquet cannot be read as Parquet"),
        ("a.csv", "t,t\na,b\n", r"a\.csv has more than one column named 't'"),
        ("a.jsonl", '{"text": 1}\n{"text"\n', r"a\.jsonl, row 2 is not JSON: "),
        ("a.jsonl", '{"text": 1}\n["text"]\n', r"a\.jsonl, row 2: expected a JSON object such as .*got list"),
        ("a.jsonl", '{"text": "cut \\ud83d"}\n', r"a\.jsonl, row 1, column 'text': the text holds half of a surr"),
    ],
)
def test_unusable_files(write, name, content, message):
    with pytest.raises(DataError, match=message):
        open_table(write(name, content))


def test_missing_file(tmp_path):
    with pytest.raises(DataError, match=r"There is no file '.*nowhere.csv'"):
        open_table(tmp_path / "nowhere.csv")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("t,l\n", r"a\.csv has a header \('t', 'l'\) but no rows"),
        ("t,l\na,b\nc\n", r"a\.csv, row 3 has 1 cell, expected 2 \('t', 'l'\)"),
        ("t,l\na,b\nc,d,e\n", r"a\.csv, row 3 has 3 cells, expected 2"),
        ('t,l\na,b\n"never closed,b\nc,d\n', r"a\.csv, row 3: a double quote opens a cell and is never closed"),
        ('t,l\na,b\n"a"b,c\n', r"a\.csv, row 3: the double quotes do not match"),
    ],
)
def test_unusable_rows(write, content, message):
    table = open_table(write("a.csv", content))
    with pytest.raises(DataError, match=message):
        list(table.chunks())


def test_a_cell_that_swallows_the_file_is_an_unclosed_quote(write, monkeypatch):
    monkeypatch.setattr("multidomain.data.readers.delimited._LARGEST_CELL", 1000)
    table = open_table(write("a.csv", 't,l\n"open,b\n' + "c,d\n" * 1000))
    with pytest.raises(DataError, match=r"a\.csv, row 2: a double quote opens a cell and is never closed"):
        list(table.chunks())


def test_undecodable_byte_deep_in_a_big_file(write):
    rows = [b"fine,x\n"] * 20_000
    rows[15_000] = b'"two\nlines, don\x92t",x\n'
    table = open_table(write("a.csv", b"text,label\n" + b"".join(rows)))
    expected = (
        r"a\.csv, row 15002, column 'text': byte 0x92 is not utf-8, near b'two\\nlines, don\\x92t'\. If the file is "
        r"in another encoding, name it, for example encoding='cp1252'\."
    )
    with pytest.raises(DataError, match=expected):
        list(table.chunks())
    repaired = open_table(table.path, encoding="cp1252")
    assert rows_of(repaired, 5000)[15_000] == (15_002, ("two\nlines, don’t", "x"))


def test_undecodable_elsewhere(write):
    with pytest.raises(DataError, match=r"a\.csv, row 1, column '2': byte 0xe9 is not utf-8"):
        open_table(write("a.csv", b"text,caf\xe9\na,b\n"))
    with pytest.raises(DataError, match=r"a\.jsonl, row 2, column 'text': byte 0xe9 .*encoding='cp1252'"):
        open_table(write("a.jsonl", b'{"text": "a"}\n{"text": "caf\xe9"}\n'))
    with pytest.raises(DataError, match=r"byte 0xff is not utf-8.*encoding='utf-16'"):
        open_table(write("a.csv", "text,label\na,b\n".encode("utf-16")))
    with pytest.raises(DataError, match=r"row 2, column 'text': byte 0x81 is not cp1252.*encoding='utf-8'"):
        list(open_table(write("a.csv", b"text,label\n\x81,b\n"), "cp1252").chunks())
    with pytest.raises(DataError, match=r"a\.csv, after row 0: the bytes are not utf-16"):
        open_table(write("a.csv", b"\xff\xfet"), "utf-16")
    with pytest.raises(DataError, match=r"a\.csv, after row 0: the bytes are not utf-16 \(UTF-16 stream does not"):
        open_table(write("a.csv", b"text,label"), "utf-16")
    assert rows_of(open_table(write("a.csv", "t,l\né,b\n".encode("utf-16")), "utf-16"))[0][1] == ("é", "b")


def test_unknown_encoding(write):
    with pytest.raises(ConfigError, match="'utf-9' is not the name of a text encoding"):
        open_table(write("a.csv", "t\na\n"), "utf-9")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("id,Text,Label,Domain", Columns("Text", "Label", "Domain")),
        ("review,sentiment,product,split", Columns("review", "sentiment", "product", "split")),
        ("Review Text,sentiment,category", Columns("Review Text", "sentiment", "category")),
        ("body,category", Columns("body", "category")),
        ("comment,y,part", Columns("comment", "y", None, "part")),
        ("text,review", Columns("text")),
    ],
)
def test_columns_are_found_by_themselves(write, header, expected):
    cells = ",".join("x" for _ in header.split(","))
    assert open_table(write("a.csv", f"{header}\n{cells}\n")).resolve(Columns()) == expected


def test_columns_asked_for_go_first(write):
    table = open_table(write("a.csv", "text,review,label,category\na,b,c,d\n"))
    wanted = Columns(text="review", label="category")
    assert table.resolve(wanted) == Columns("review", "category")
    assert table.resolve(Columns(domain="label")) == Columns("text", "category", "label")


def test_missing_and_unknown_columns(write):
    table = open_table(write("a.csv", "id,words,label\n1,b,c\n"))
    with pytest.raises(
        DataError,
        match=r"a\.csv has no column that looks like the text\. Its columns: 'id', 'words', 'label'\. "
        r"Name the right one with text_column=\.\.\.",
    ):
        table.resolve(Columns())
    with pytest.raises(
        DataError,
        match=r"a\.csv has no column 'word' \(asked for as the text\)\. Did you mean 'words'\? Valid: 'id', ",
    ):
        table.resolve(Columns(text="word"))
    with pytest.raises(DataError, match="no column that looks like the domain"):
        table.resolve(Columns(text="words"), require=("text", "domain"))


def test_another_separator_is_suspected(write):
    table = open_table(write("a.csv", "text;label\na;b\n"))
    with pytest.raises(DataError, match="header seems to use another separator"):
        table.resolve(Columns())
