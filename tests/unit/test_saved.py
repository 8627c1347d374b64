"""Saved files: checked before they are believed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from multidomain.errors import ConfigError, ModelError
from multidomain.files import write_json
from multidomain.saved import parse_json, read_json, read_json_lines, read_sealed, read_tensors, read_toml, write_sealed


def test_sealed(tmp_path: Path):
    content = {"a": [1, 0.1, None], "b": {"ä": "書"}}
    write_sealed(tmp_path / "a.json", content, format_version=3)
    assert read_sealed(tmp_path / "a.json", dict, 3).items() >= content.items()
    assert read_sealed(tmp_path / "a.json", dict, 4).items() >= content.items(), "an older format is still read"
    with pytest.raises(ModelError, match=r"a\.json has format version 3, .*reads up to 2\. Upgrade multidomain"):
        read_sealed(tmp_path / "a.json", dict, 2)


def test_a_broken_seal(tmp_path: Path):
    path = tmp_path / "a.json"
    write_sealed(path, {"a": 1}, 1)
    whole = path.read_text()
    path.write_text(whole.replace('"a": 1', '"a": 2'))
    with pytest.raises(ModelError, match=r"a\.json was altered after it was saved"):
        read_sealed(path, dict, 1)
    path.write_text(whole[:-20])
    with pytest.raises(ModelError, match=r"a\.json is cut short or damaged"):
        read_sealed(path, dict, 1)
    path.write_text(whole.replace('"a": 1', '"a":  1'))  # blanks mean nothing
    assert read_sealed(path, dict, 1)["a"] == 1


def test_depth_is_bounded_before_parsing():
    deep = "[" * 100 + "]" * 100
    assert parse_json(deep)
    for text in (f"[{deep}]", "[" * 10**6, '{"a":' * 10**6, '["' + "\\" * 10 + '", ' + "[" * 200):
        with pytest.raises(ValueError, match="nested more than 100 deep"):
            parse_json(text)
    brackets = "[{" * 10_000
    assert parse_json(json.dumps([brackets, '"[' * 10_000, "\\"])) == [brackets, '"[' * 10_000, "\\"], "in strings"
    for text in ('"' + '\\"' * 10**6 + "[" * 200, "[" * 101 + '"'):  # a string that is never closed
        with pytest.raises(ValueError):
            parse_json(text)


def test_json_is_checked_against_its_schema(tmp_path: Path):
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})
    assert read_json(path, dict[str, int], "Go.") == {"a": 1}
    with pytest.raises(
        ModelError, match=r"a\.json cannot be used: 'a': input should be a valid string\. It is .+ Go\."
    ):
        read_json(path, dict[str, str], "Go.")
    for content in (b"", b"\xff", b"{", b"1" * 5000, b'"\\ud83d"', b"[" * 5000):
        path.write_bytes(content)
        with pytest.raises(ModelError, match=r"a\.json is cut short or damaged \(.+\)\. Go\."):
            read_json(path, dict[str, Any], "Go.")
    path.unlink()
    with pytest.raises(ModelError, match=r"a\.json is missing\. Go\."):
        read_json(path, dict[str, Any], "Go.")
    for place in ("/dev/zero", str(tmp_path)):
        with pytest.raises(ModelError, match="is not a regular file"):
            read_json(Path(place), dict[str, Any], "Go.")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path):
    with (tmp_path / "a.json").open("wb") as file:
        file.truncate(2**31)
    with pytest.raises(ModelError, match=r"a\.json has 2,147,483,648 bytes\. Expected at most"):
        read_json(tmp_path / "a.json", dict[str, Any], "")
    with (tmp_path / "a.toml").open("wb") as file:
        file.truncate(2**21)
    with pytest.raises(ConfigError, match=r"a\.toml has 2,097,152 bytes"):
        read_toml(tmp_path / "a.toml")


def test_json_lines_name_the_line(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n{"a": "\u2028"}\n', encoding="utf-8")
    assert read_json_lines(path, dict[str, Any], "") == [{"a": 1}, {"a": "\u2028"}]
    with pytest.raises(ModelError, match=r"a\.jsonl, line 2, cannot be used: 'a'"):
        read_json_lines(path, dict[str, int], "")
    path.write_text('{"a": 1}\n{"a')
    with pytest.raises(ModelError, match=r"a\.jsonl is cut short or damaged \(after line 2"):
        read_json_lines(path, dict[str, int], "")


@pytest.mark.parametrize(
    "content",
    [b"a = " + b"[" * 2000, b"a." * 60_000 + b"a = 1", b"a = 1" + b"0" * 5000, b"\xff", b"a = {b." + b"b." * 9000],
)
def test_toml(content: bytes, tmp_path: Path):
    (tmp_path / "a.toml").write_bytes(content)
    with pytest.raises(ConfigError, match=r"a\.toml is not TOML: "):
        read_toml(tmp_path / "a.toml")


@pytest.mark.parametrize("framework", ["pt", "numpy"])
@pytest.mark.parametrize("content", [b"", b"\xff" * 100, b"\x08" + b"\0" * 7 + b"{" * 8, b"\xff" * 7 + b"\x7f{}"])
def test_tensors(content: bytes, framework: Any, tmp_path: Path):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(ModelError, match=r"a is cut short or damaged \(.+\)\. Go\."):
        read_tensors(tmp_path / "a", framework, "Go.")
