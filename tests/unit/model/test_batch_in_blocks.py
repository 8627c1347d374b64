"""Large files, which compiled code reads and writes, give to the byte what small ones give; so do their faults."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from multidomain import MultiDomainClassifier, threads
from multidomain.data.columns import Columns
from multidomain.data.readers import cells, delimited
from multidomain.data.readers.base import CellBlock
from multidomain.data.readers.tables import open_table
from multidomain.errors import MultidomainError
from multidomain.model import batch
from multidomain.model.batch import predict_file
from multidomain.model.model import Model

SIGNS = [
    "\r",
    "\n",
    "\r\n",
    '"',
    '""',
    ",",
    "\t",
    " ",
    "\xa0",
    "\u2028",
    "\x85",
    "\x1c",
    "\0",
    "\ufeff",
    "&amp;",
    "<br>",
]
WORDS = ["light", "heavy one", "pans", "books", "é", "書", "🎉", "=1", "-5"]

texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.lists(st.sampled_from([*SIGNS, *WORDS]), max_size=5).map("".join),
)
domains = st.one_of(st.sampled_from(["pans", "books", "Pans", " ", "", "wine"]), texts)
tables = st.lists(st.tuples(texts, domains, texts), min_size=1, max_size=12)
lines = st.lists(st.sampled_from([*SIGNS, *WORDS, ",", "\n", "light,pans,1\n"]), max_size=30).map("".join)


@pytest.fixture(scope="module")
def model() -> Model:
    """In 'pans' light is good, in 'books' it is bad; the names of the classes need quotes."""
    words = [f"{word} {filler}" for word in ("light", "heavy") for filler in ("one", "two", "three", "four")]
    labels = ["good, or so"] * 4 + ['"bad"'] * 4
    of_rows = ["pans"] * 8 + ["books"] * 8
    classifier = MultiDomainClassifier("fa-lr", method_settings={"C": 100.0})
    return classifier.fit(words * 2, labels + labels[::-1], domains=of_rows).model_


@pytest.fixture(autouse=True, scope="module")
def small_parts() -> Iterator[None]:
    """Rows and blocks end everywhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "_CHUNK", 3)
        patch.setattr(cells, "_READ", 16)
        yield


def outcome(model: Model, content: bytes, large: bool, suffix: str = ".csv", target: str = "out.csv", **options: Any):
    """The table that is written, its counts and notes; or what is wrong."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "_LARGE_FILE", 0 if large else 2**60)
        source, written = Path(folder, f"in{suffix}"), Path(folder, target)
        source.write_bytes(content)
        try:
            done = predict_file(model, source, written, Columns(), **options)
        except MultidomainError as error:
            assert not written.exists()
            return str(error)
        return written.read_bytes(), done


def as_csv(
    rows: list[tuple[str, ...]], delimiter: str = ",", end: str = "\n", quoting: int = csv.QUOTE_MINIMAL
) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\r\n", quoting=quoting)  # CR and LF get quotes
    writer.writerow(["text", "domain", "id"])
    header = text.getvalue()
    body = io.StringIO()
    for row in rows:
        line = io.StringIO()
        csv.writer(line, delimiter=delimiter, lineterminator="\r\n", quoting=quoting).writerow(row)
        body.write(line.getvalue().removesuffix("\r\n") + end)
    return (header + body.getvalue()).encode()


@settings(max_examples=150, deadline=None)
@given(
    rows=tables,
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    formats=st.sampled_from([(".csv", "out.csv"), (".tsv", "out.csv"), (".csv", "out.tsv"), (".csv", "out.jsonl")]),
    options=st.sampled_from(
        [{}, {"probabilities": True}, {"abstain": 0.9}, {"domain": "pans"}, {"escape_formulas": True}]
    ),
)
@example(rows=[("\xa0", "", "1"), ("", "pans", '"'), ('"light"', "pans", "a\rb")], end="\n", quoting=0,
         formats=(".csv", "out.csv"), options={})  # fmt: skip
def test_any_cells(model: Model, rows, end: str, quoting: int, formats: tuple[str, str], options: dict[str, Any]):
    suffix, target = formats
    content = as_csv(rows, "\t" if suffix == ".tsv" else ",", end, quoting)
    found, expected = (outcome(model, content, large, suffix, target, **options) for large in (True, False))
    assert found == expected


@settings(max_examples=300, deadline=None)
@given(body=lines, bad=st.sampled_from([b"", b"", b"\xff", b"\xed\xa0\x80", b"\xc3"]), at=st.integers(0, 60))
@example(body='light,pans,"1', bad=b"", at=0)
@example(body="light,pans,1\n\n\nheavy,books,2\n\n", bad=b"", at=0)
@example(body='light,pans,1\r"a" b,c,d\n', bad=b"", at=0)
def test_any_lines_with_their_faults(model: Model, body: str, bad: bytes, at: int):
    content = body.encode()
    content = b"text,domain,id\n" + content[:at] + bad + content[at:]
    assert outcome(model, content, large=True) == outcome(model, content, large=False)


@pytest.mark.parametrize("header", ["\ufefftext,domain\n", "\n\ntext,domain\r\n", '"text","domain"\r', "text,domain"])
def test_headers(model: Model, header: str):
    for body in ("light,pans\nheavy,books\n" * 4, ""):
        content = (header + body).encode()
        assert outcome(model, content, large=True) == outcome(model, content, large=False)


def test_in_threads(model: Model, monkeypatch: pytest.MonkeyPatch):
    rows = [(f"light {i} é" if i % 3 else "", f"domain {i % 7}", str(i)) for i in range(100)]
    alone = outcome(model, as_csv(rows), large=True)
    monkeypatch.setattr(threads, "_compiled_threads", 3)
    assert outcome(model, as_csv(rows), large=True) == alone


def test_compiled_code_is_what_is_tested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(delimited, "_LARGE_FILE", 0)
    (tmp_path / "in.csv").write_bytes(as_csv([('a "b", c\r\nd', "é", "")] * 7) + b"x,y\n" + as_csv([("a", "b", "c")]))
    parts: list[Any] = []
    with pytest.raises(MultidomainError, match="row 9 has 2 cells"):
        for part in open_table(tmp_path / "in.csv").blocks(3):
            parts.append(part)
    assert [type(part) for part in parts] == [CellBlock, CellBlock]
    assert parts[0].rows() == [('a "b", c\r\nd', "é", "")] * 3


def test_numbers_are_written_as_python_writes_them():
    from multidomain.data.block_text import block_text

    values = np.r_[np.arange(200), np.random.default_rng(0).integers(0, 10**6, 500), 10**5, 10**6 - 1, 10**6] / 10**6
    block = CellBlock(["a"], np.empty(0, dtype=np.uint8), np.zeros(len(values) + 1, dtype=np.int64))
    everywhere = np.arange(len(values))
    text = block_text(block, ",", ["x"], everywhere, np.zeros_like(everywhere), values[:, None])
    assert text == "".join(f",x,{value!r}\n" for value in values.tolist())
    for broken in (float("nan"), 1.5, -0.1):
        assert block_text(block, ",", ["x"], everywhere[:1], everywhere[:1], np.array([[broken]])) is None
