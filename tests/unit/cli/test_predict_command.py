"""The table that ``multidomain predict`` writes: each row with its own prediction, whole or not at all."""

from __future__ import annotations

import csv
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

Run = Callable[..., tuple[int, str, str]]

WORDS = [f"word{chr(97 + i // 5)}{chr(97 + i % 5)}" for i in range(20)]
"""Each the one word of a class, so that a prediction tells which text it is of."""


def write(path: Path, rows: list[list[str]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("words")
    rows = [
        [f"{word} {filler}", f"class {word}", domain]
        for word in WORDS
        for domain in ("books", "pans")
        for filler in ("one", "two", "three", "four", "five", "six")
    ]
    source = write(folder / "train.csv", [["text", "label", "domain"], *rows])
    command = ["train", source, "-o", folder / "m", "--method", "lr", "--set", "C=10"]
    done = subprocess.run([sys.executable, "-m", "multidomain", *map(str, command)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "m"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = [[f"{WORDS[i]} one", ("books", "pans")[i % 2], f"{i}"] for i in range(20)]
    return write(tmp_path / "in.csv", [["text", "domain", "remark"], *rows])


def test_each_row_gets_its_own_prediction(model: Path, tmp_path: Path, run: Run):
    chosen = np.random.default_rng(1).choice(WORDS, 9000).tolist()
    rows = [[f"{word} one", ("books", "pans")[i % 2], f"{i}"] for i, word in enumerate(chosen)]
    source = write(tmp_path / "in.csv", [["text", "domain", "id"], *rows])
    for target in ("out.csv", "out.jsonl"):
        code, _, err = run("predict", model, source, "-o", tmp_path / target)
        assert code == 0, err
    in_json = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    for found in (read(tmp_path / "out.csv"), in_json):
        assert [row["id"] for row in found] == [row[2] for row in rows]
        assert [row["prediction"] for row in found] == [f"class {word}" for word in chosen]


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_a_carriage_return_makes_no_row(suffix: str, model: Path, tmp_path: Path, run: Run):
    source = write(tmp_path / "in.csv", [["text", "remark"], ["worda\rb", "\r"], ["wordab", "b\rc"]])
    code, _, err = run("predict", model, source, "-o", tmp_path / f"out{suffix}")
    assert code == 0, err
    with (tmp_path / f"out{suffix}").open(newline="", encoding="utf-8") as file:
        written = list(csv.reader(file, delimiter="\t" if suffix == ".tsv" else ","))
    assert [row[:2] for row in written[1:]] == [["worda\rb", "\r"], ["wordab", "b\rc"]]


def test_formulas_are_escaped_where_that_is_asked_for(model: Path, tmp_path: Path, run: Run):
    rows = [["=1+1", "@pans", "-5"], ["fine", "pans", "+cmd"]]
    source = write(tmp_path / "in.csv", [["text", "domain", "remark"], *rows])
    for options, expected in (
        ([], rows),
        (["--escape-formulas"], [["'=1+1", "'@pans", "-5"], ["fine", "pans", "'+cmd"]]),
    ):
        code, _, err = run("predict", model, source, "-o", tmp_path / "out.csv", *options)
        assert code == 0, err
        assert [list(row.values())[:3] for row in read(tmp_path / "out.csv")] == expected


def test_a_symlink_is_written_through(model: Path, table: Path, tmp_path: Path, run: Run):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "target.csv", tmp_path / "link.csv"
    target.write_text("old")
    link.symlink_to(target)
    code, _, err = run("predict", model, table, "-o", link)
    assert code == 0, err
    assert link.is_symlink() and len(read(target)) == 20
    assert [path.name for path in target.parent.iterdir()] == ["target.csv"]


def limited(*command: object, size: int, out: int = subprocess.DEVNULL) -> tuple[int, str]:
    """Run a command whose files may have `size` bytes; return exit code and what it says."""
    done = subprocess.run(
        [sys.executable, "-m", "multidomain", *map(str, command)],
        stdout=out,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "PYTHONUNBUFFERED": "", "COLUMNS": "200"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    )
    return done.returncode, done.stderr


def test_a_file_size_limit_is_said_in_one_line(model: Path, table: Path, tmp_path: Path):
    target = tmp_path / "out.csv"
    target.write_text("old")
    code, err = limited("predict", model, table, "-o", target, size=100)
    assert code == 2
    assert err.startswith(f"error: The file-size limit (ulimit -f) was reached while writing {target}. What was there")
    assert err.count("\n") == 1
    assert target.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "out.csv"]
    with (tmp_path / "redirected.csv").open("w") as file:
        code, err = limited("predict", model, table, size=100, out=file.fileno())
    assert code == 2 and err.count("\n") == 1
    assert err.startswith("error: The file-size limit (ulimit -f) was reached while writing standard output.")


def test_a_file_size_limit_in_training_is_said_in_one_line(tmp_path: Path):
    code, err = limited("train", "demo", "-o", tmp_path / "m", "--method", "lr", size=20_000)
    assert code == 2 and "Traceback" not in err
    assert "error: The file-size limit (ulimit -f) was reached while writing" in err.splitlines()[-1]


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("in.csv/out.csv", "error: Cannot write {}/in.csv/out.csv: "),
        ("folder.csv", "error: Cannot write '{}/folder.csv': it is a folder."),
        ("/proc/out.csv", "error: Cannot write /proc/out.csv: "),
    ],
)
def test_a_place_that_cannot_be_written_to(
    output: str, message: str, model: Path, table: Path, tmp_path: Path, run: Run
):
    (tmp_path / "folder.csv").mkdir()
    code, _, err = run("predict", model, table, "-o", tmp_path / output)
    assert code == 2
    assert err.startswith(message.format(tmp_path)) and err.count("\n") == 1


def test_label_next_names_the_row_whose_character_the_encoding_does_not_have(model: Path, tmp_path: Path, run: Run):
    source = tmp_path / "in.jsonl"
    source.write_text('{"text": "wordaa \\u66f8", "domain": "books"}\n', encoding="ascii")
    target = tmp_path / "to-label.csv"
    code, _, err = run("label-next", model, source, "-o", target, "--encoding", "ascii")
    assert code == 2
    assert "error: to-label.csv, row 2: the character '書' is not in ascii. Choose --encoding utf-8, or an out" in err
    assert list(tmp_path.iterdir()) == [source]
    code, _, err = run("label-next", model, source, "-o", tmp_path / "to-label.jsonl", "--encoding", "ascii")
    assert code == 0, err
    assert json.loads((tmp_path / "to-label.jsonl").read_bytes())["text"] == "wordaa 書"


@pytest.mark.parametrize(
    ("source", "output", "options", "said"),
    [
        ("a.csv", "b.csv", ("--workers", "2"), "'--workers' is for many files. Leave it out"),
        ("a.csv", "b.csv", ("--address", "h:1", "--overwrite"), "'--address', '--overwrite' are for many files"),
        ("a.parquet", "b.parquet", ("--overwrite",), "'--overwrite' is for many files"),
        ("a.parquet", "b.parquet", ("--threads", "2"), "'--threads' has no effect on Parquet files"),
        ("*.parquet", "b", ("--encoding", "ascii", "--escape-formulas"), "have no effect on Parquet files. Leave them"),
    ],
)
def test_options_that_would_be_ignored_are_refused(
    source: str, output: str, options: tuple[str, ...], said: str, tmp_path: Path, run: Run
):
    code, _, err = run("predict", tmp_path, tmp_path / source, "-o", tmp_path / output, *options)
    assert code == 2 and said in err
