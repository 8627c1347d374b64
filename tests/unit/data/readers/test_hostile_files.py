"""Files that nobody wrote by accident, and some that somebody did: each is one clear error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from multidomain.data.readers.read import read_corpus
from multidomain.errors import ConfigError, DataError
from multidomain.features.word_vectors import WordVectors, read_vectors, write_vectors

ROW = b'{"text": "fine", "label": "good"}\n'


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"text": ' + b"[" * 2_000 + b"]" * 2_000 + b"}", r"row 2 is not JSON: nested more than 100 deep\."),
        (b'{"a":' * 2_000 + b"1" + b"}" * 2_000, r"row 2 is not JSON: nested more than 100 deep\."),
        (b'{"te\xffxt": "fine"}', r"row 2, column '\?': byte 0xff is not utf-8"),
        (b'{"text": ["fi\xffne"]}', r"row 2, column '\?': byte 0xff is not utf-8"),
        (b'{"text": "fi\xffne"}', r"row 2, column 'text': byte 0xff is not utf-8"),
        (b'{"te\\ud83dxt": "fine"}', r"row 2, a name of a column: the text holds half of a surrogate pair"),
        (b'{"text": "a", "x": ["\\ud83d"]}', r"row 2, column 'x': the text holds half of a surrogate pair"),
        (b'{"text": ' + b"9" * 5_000 + b"}", r"row 2 is not JSON: Exceeds the limit"),
    ],
)
def test_json_lines(line: bytes, said: str, tmp_path: Path):
    (tmp_path / "a.jsonl").write_bytes(ROW + line + b"\n")
    with pytest.raises(DataError, match=said):
        read_corpus(tmp_path / "a.jsonl")


def test_json_lines_of_ever_new_keys(tmp_path: Path):
    (tmp_path / "a.jsonl").write_text("".join(f'{{"text": "fine", "k{i}": 1}}\n' for i in range(10_001)))
    with pytest.raises(DataError, match="more than 10,000 different keys"):
        read_corpus(tmp_path / "a.jsonl")


@pytest.mark.parametrize("encoding", ["rot13", "hex", "base64", "zlib", "bz2", "none", "a\0b", "\udcff", ""])
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_only_text_encodings(encoding: str, suffix: str, tmp_path: Path):
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(ROW)
    with pytest.raises(ConfigError, match="is not the name of a text encoding"):
        read_corpus(path, encoding=encoding)


@pytest.mark.parametrize(("encoding", "content"), [("utf-7", b"a+2AA-"), ("unicode_escape", rb"a\ud800")])
def test_encodings_that_let_half_a_pair_through(encoding: str, content: bytes, tmp_path: Path):
    (tmp_path / "a.csv").write_bytes(b"text,label\n" + content + b",good\n")
    with pytest.raises(DataError, match=r"a\.csv, row 2, column 'text': half of a surrogate pair is no character"):
        read_corpus(tmp_path / "a.csv", encoding=encoding)


@pytest.mark.parametrize("column", ["1" + "0" * 20, "1" + "0" * 5_000, "9223372036854775807", "100000001"])
def test_svmlight_columns_beyond_all_bounds(column: str, tmp_path: Path):
    (tmp_path / "a.svmlight").write_text(f"1 1:2\n0 1:1 {column}:1\n")
    with pytest.raises(DataError, match=r"a\.svmlight, row 2: the column \d+ is beyond 100,000,000\. Renumber"):
        read_corpus(tmp_path / "a.svmlight")


def test_svmlight_values_may_be_long(tmp_path: Path):
    (tmp_path / "a.svmlight").write_text(
        "1 1:2.1234567890123456789 3:1 # 12345678901234567890:1\n0 1:12345678901 2:1e-12\n"
    )
    assert read_corpus(tmp_path / "a.svmlight").documents.shape == (2, 3)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.bin", b"1000000000000 1000000000\nword ", "too short for that"),
        ("a.bin", b"-1 4\n", "expected the number of words"),
        ("a.bin", b"0 4\n", "expected the number of words"),
        ("a.bin", b"1 1\nw " + np.float32("nan").tobytes() + b"\n", r"the vector of word 1 is not finite"),
        ("a.txt", "² ²\nw 1 2\n".encode(), "expected a word and 1 numbers"),
        ("a.txt", b"1 2\nw 1 inf\n", r"the vector of word 1 is not finite"),
    ],
)
def test_word_vectors(name: str, content: bytes, said: str, tmp_path: Path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=said):
        read_vectors(tmp_path / name)


def test_sound_word_vectors_of_one_short_word(tmp_path: Path):
    vectors = WordVectors(("w",), np.ones((1, 1), dtype=np.float32))
    write_vectors(vectors, tmp_path / "a.bin")
    assert read_vectors(tmp_path / "a.bin").words == ("w",)
    (tmp_path / "a.bin").write_bytes((tmp_path / "a.bin").read_bytes()[:-1])  # some writers end without a line break
    assert read_vectors(tmp_path / "a.bin").words == ("w",)
