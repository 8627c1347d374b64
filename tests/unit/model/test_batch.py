"""Whole files: each row gets its own prediction, however the file is cut into chunks."""

from __future__ import annotations

import csv
import gc
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from multidomain import threads
from multidomain.data.columns import Columns
from multidomain.model import batch
from multidomain.model.batch import predict_file
from multidomain.model.model import ResolvedDomains

CLASSES = 97
DOMAINS = 5


class Numbering:
    """In place of a model: predicts from ``text 17`` what no other row gets, and knows the domain of each row."""

    classes = tuple(f"class {k}" for k in range(CLASSES))

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([int(text.removeprefix("text ")) for text in texts])

    def resolve_domains(self, domains: Sequence[str], n_rows: int, unknown_domain: str) -> ResolvedDomains:
        assert len(domains) == n_rows
        return ResolvedDomains(np.ma.masked_array([int(domain.removeprefix("domain ")) for domain in domains]), ())

    def probabilities(self, numbers: np.ndarray, codes: np.ndarray) -> np.ndarray:
        assert (codes == numbers % DOMAINS).all()
        p = np.zeros((len(numbers), CLASSES))
        p[np.arange(len(numbers)), numbers % CLASSES] = confidence(numbers)
        return p


def confidence(number: Any) -> Any:
    return 0.5 + number / 100_000


def write(path: Path, numbers: Sequence[int | None]) -> Path:
    """Write a row for each number; one without a number has no text."""
    rows = [
        {"id": i, "text": "" if n is None else f"text {n}", "domain": f"domain {(n or 0) % DOMAINS}"}
        for i, n in enumerate(numbers)
    ]
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    elif path.suffix == ".parquet":
        pl.DataFrame(rows).write_parquet(path)
    else:
        pl.DataFrame(rows).write_csv(path, separator="\t" if path.suffix == ".tsv" else ",")
    return path


def read(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8", newline="") as file:
        if path.suffix == ".jsonl":
            return [json.loads(line) for line in file]
        return list(csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ","))


def check(rows: list[dict[str, Any]], numbers: Sequence[int | None]) -> None:
    assert [int(row["id"]) for row in rows] == list(range(len(numbers)))
    for row, n in zip(rows, numbers, strict=True):
        if n is None:
            assert not row["text"] and not row["prediction"] and row["confidence"] in ("", None)
        else:
            assert row["text"] == f"text {n}" and row["domain"] == f"domain {n % DOMAINS}"
            assert row["prediction"] == f"class {n % CLASSES}"
            assert float(row["confidence"]) == pytest.approx(confidence(n), abs=1e-6)


def shuffled(n: int) -> list[int | None]:
    """Numbers in any order; each seventh row is without text."""
    numbers = np.random.default_rng(1).permutation(n).tolist()
    return [None if i % 7 == 3 else number for i, number in enumerate(numbers)]


def predict(source: Path, target: Path, **options: Any) -> batch.Predicted:
    return predict_file(Numbering(), source, target, Columns(), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("target", ["out.csv", "out.tsv", "out.jsonl"])
@pytest.mark.parametrize("source", ["in.csv", "in.tsv", "in.jsonl", "in.parquet"])
def test_each_row_gets_its_own_prediction_in_files_of_several_chunks(source: str, target: str, tmp_path: Path):
    numbers = shuffled(2 * batch._CHUNK + 801)
    done = predict(write(tmp_path / source, numbers), tmp_path / target)
    check(read(tmp_path / target), numbers)
    assert (done.rows, done.without_text) == (len(numbers), sum(n is None for n in numbers))


@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_wherever_the_file_is_cut(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(batch, "_CHUNK", size)
    numbers = shuffled(50)
    predict(write(tmp_path / "in.csv", numbers), tmp_path / "out.csv")
    check(read(tmp_path / "out.csv"), numbers)


@pytest.mark.parametrize("n_threads", [2, 5])
def test_several_threads_move_no_prediction_to_another_row(
    n_threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(batch, "_CHUNK", 7)
    source = write(tmp_path / "in.csv", [n if n % 13 else None for n in range(1, 500)])
    alone, together = (tmp_path / name for name in ("alone.csv", "together.csv"))
    predict_file(Numbering(), source, alone, Columns())
    monkeypatch.setattr(threads, "_compiled_threads", n_threads)
    predict_file(Numbering(), source, together, Columns())
    assert together.read_bytes() == alone.read_bytes()


def test_blank_lines_move_no_prediction_to_another_row(tmp_path: Path):
    numbers = list(range(40))
    lines = write(tmp_path / "in.csv", numbers).read_text().splitlines()
    (tmp_path / "in.csv").write_text("\n\n".join(lines), encoding="utf-8")
    predict(tmp_path / "in.csv", tmp_path / "out.csv")
    check(read(tmp_path / "out.csv"), numbers)


def test_only_rows_of_little_confidence_are_left_without(tmp_path: Path):
    numbers = np.random.default_rng(2).permutation(200).tolist()
    done = predict(write(tmp_path / "in.csv", numbers), tmp_path / "out.csv", abstain=confidence(100))
    rows = read(tmp_path / "out.csv")
    assert [row["prediction"] for row in rows] == [f"class {n % CLASSES}" if n >= 100 else "" for n in numbers]
    assert [float(row["confidence"]) for row in rows] == pytest.approx([confidence(n) for n in numbers])
    assert done.abstained == 100


def test_probabilities_are_those_of_the_row_and_the_class(tmp_path: Path):
    numbers = np.random.default_rng(3).permutation(150).tolist()
    predict(write(tmp_path / "in.csv", numbers), tmp_path / "out.csv", probabilities=True)
    for row, n in zip(read(tmp_path / "out.csv"), numbers, strict=True):
        p = [float(row[f"p({name})"]) for name in Numbering.classes]
        assert np.flatnonzero(p).tolist() == [n % CLASSES] and max(p) == pytest.approx(confidence(n))


def test_what_the_model_is_run_by_gets_every_chunk_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(batch, "_CHUNK", 10)
    ran: list[int] = []

    def run(job: Any) -> np.ndarray:
        p = job()
        ran.append(len(p))
        return p

    predict(write(tmp_path / "in.csv", list(range(25))), tmp_path / "out.csv", run=run)
    check(read(tmp_path / "out.csv"), list(range(25)))
    assert ran == [10, 10, 5]


def test_copied_cells_are_what_they_were(tmp_path: Path):
    """A carriage return, which a table may hold in quotes, and formulas."""
    cells = ["a\rb", "=1+1", '"quoted"', "x\r\ny", "-5", "", "+cmd", "@me", " blank ", "a,b\tc"]
    with (tmp_path / "in.csv").open("w", encoding="utf-8", newline="") as file:
        rows = [[f"text {i}", f"domain {i % DOMAINS}", cell] for i, cell in enumerate(cells)]
        csv.writer(file).writerows([["text", "domain", "remark"], *rows])
    predict(tmp_path / "in.csv", tmp_path / "out.csv")
    assert [row["remark"] for row in read(tmp_path / "out.csv")] == cells
    predict(tmp_path / "in.csv", tmp_path / "out.csv", escape_formulas=True)
    escaped = ["a\rb", "'=1+1", '"quoted"', "x\r\ny", "-5", "", "'+cmd", "'@me", " blank ", "a,b\tc"]
    assert [row["remark"] for row in read(tmp_path / "out.csv")] == escaped


def test_garbage_collection_goes_on_afterwards_as_before():
    with batch.without_collection():
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with batch.without_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
