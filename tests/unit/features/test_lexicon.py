"""Lexicons from files: what a line may hold, scaling, and the texts of errors."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from multidomain.errors import ConfigError, DataError
from multidomain.features.lexicon import read_lexicon


def lexicon(folder: Path, text: str | bytes) -> str:
    path = folder / "words.tsv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_words_and_values(tmp_path: Path):
    """Further columns and empty lines are not read; words are in lower case, and may have spaces."""
    text = "Good\t2\t0.5\t[2, 2]\n\n  fairly bad \t-4.0\n \t \nécole\t1e0\r\ntable\t0\n"
    values = read_lexicon(lexicon(tmp_path, text))
    assert values == {"good": 0.5, "fairly bad": -1.0, "école": 0.25, "table": 0.0}


@pytest.mark.parametrize("factor", [0.01, 1, 250])
def test_values_are_divided_by_the_largest(tmp_path: Path, factor: float):
    values = read_lexicon(lexicon(tmp_path, f"a\t{-3 * factor}\nb\t{2 * factor}\nc\t{-factor}"))
    assert values == pytest.approx({"a": -1, "b": 2 / 3, "c": -1 / 3})


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("bad", id="no tab"),
        pytest.param("bad -1.0", id="a space for a tab"),
        pytest.param("bad\tvery", id="no number"),
        pytest.param("bad\t", id="nothing after the tab"),
        pytest.param("bad\t1,5", id="a comma in the number"),
    ],
)
def test_a_bad_line_is_named_by_its_number(tmp_path: Path, line: str):
    path = lexicon(tmp_path, f"good\t1\n\n{line}\nfine\t1\n")
    expected = f"{path}, line 3: expected a word, a tab and a number, got {line!r}."
    with pytest.raises(DataError, match=f"^{re.escape(expected)}$"):
        read_lexicon(path)


def test_a_long_bad_line_is_cut(tmp_path: Path):
    with pytest.raises(DataError, match=rf"line 1: .*, got '{'x' * 60}'\.$"):
        read_lexicon(lexicon(tmp_path, "x" * 500))


@pytest.mark.parametrize("text", ["", "\n \n", "table\t0\nchair\t0.0\n"])
def test_a_lexicon_without_values_is_refused(tmp_path: Path, text: str):
    path = lexicon(tmp_path, text)
    with pytest.raises(DataError, match=rf"^The lexicon {re.escape(path)} has no word with a value other than 0\.$"):
        read_lexicon(path)


def test_a_file_that_cannot_be_read(tmp_path: Path):
    missing = str(tmp_path / "missing.tsv")
    with pytest.raises(DataError, match=rf"^The lexicon {re.escape(missing)} cannot be read: .*No such file"):
        read_lexicon(missing)
    latin_1 = lexicon(tmp_path, "école\t1\n".encode("latin-1"))
    with pytest.raises(DataError, match=rf"^The lexicon {re.escape(latin_1)} cannot be read: .*utf-8"):
        read_lexicon(latin_1)


def test_vader_needs_its_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "vaderSentiment", None)  # as if it was not installed
    with pytest.raises(
        ConfigError,
        match=r"^The lexicon 'vader' is in the package vaderSentiment, which is not installed\. "
        r"Install 'multidomain\[lexicon\]', or give a file of words and values\.$",
    ):
        read_lexicon("vader")


@pytest.mark.skipif(find_spec("vaderSentiment") is None, reason="vaderSentiment is not installed")
def test_vader():
    values = read_lexicon("vader")
    assert len(values) > 5_000
    assert max(abs(value) for value in values.values()) == 1
    assert values["great"] > 0.5 > 0 > values["awful"]


@pytest.mark.parametrize("line", ["bad\tnan", "bad\tinf", "\t1"])
def test_values_must_be_numbers_of_a_word(tmp_path: Path, line: str):
    with pytest.raises(DataError, match="line 2: expected a word, a tab and a number"):
        read_lexicon(lexicon(tmp_path, f"good\t1\n{line}\n"))


def test_a_byte_order_mark_is_no_part_of_a_word(tmp_path: Path):
    assert read_lexicon(lexicon(tmp_path, b"\xef\xbb\xbfgood\t1\n")) == {"good": 1.0}
