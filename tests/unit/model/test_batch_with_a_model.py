"""Whole files through a real model: whose domain counts, what is noted, and what a row without text looks like."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from multidomain import MultiDomainClassifier
from multidomain.data.columns import Columns
from multidomain.errors import DataError
from multidomain.model.batch import predict_file
from multidomain.model.model import Model


@pytest.fixture(scope="module")
def model() -> Model:
    """In 'pans' light is good, in 'books' it is bad."""
    texts = [f"{word} {filler}" for word in ("light", "heavy") for filler in ("one", "two", "three", "four")]
    labels = ["good"] * 4 + ["bad"] * 4
    domains = ["pans"] * 8 + ["books"] * 8
    classifier = MultiDomainClassifier("fa-lr", method_settings={"C": 100.0})
    return classifier.fit(texts * 2, labels + labels[::-1], domains=domains).model_


def predicted(model: Model, folder: Path, rows: list[list[str]], **options) -> list[dict[str, str]]:
    source, target = folder / "in.csv", folder / "out.csv"
    with source.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["text", "domain"], *rows])
    predict_file(model, source, target, Columns(), **options)
    with target.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_domain_of_each_row_counts(model: Model, tmp_path: Path):
    rows = predicted(model, tmp_path, [["light one", "pans"], ["light one", "books"], ["heavy two", "pans"]])
    assert [row["prediction"] for row in rows] == ["good", "bad", "bad"]


def test_a_domain_that_is_given_overrides_the_column(model: Model, tmp_path: Path):
    rows = predicted(model, tmp_path, [["light one", "pans"], ["light two", "books"]], domain="books")
    assert [row["prediction"] for row in rows] == ["bad", "bad"]
    assert [row["domain"] for row in rows] == ["pans", "books"], "the cells stay as they were"


def test_a_row_without_text_has_every_added_column_empty(model: Model, tmp_path: Path):
    with_text, without = predicted(model, tmp_path, [["light one", "pans"], ["", "pans"]], probabilities=True)
    assert list(without) == ["text", "domain", "prediction", "confidence", "p(bad)", "p(good)"]
    assert list(without.values()) == ["", "pans", "", "", "", ""], "and not a cell less"
    assert float(with_text["p(bad)"]) + float(with_text["p(good)"]) == pytest.approx(1, abs=2e-6)


def test_probabilities_have_six_decimals(model: Model, tmp_path: Path):
    (row,) = predicted(model, tmp_path, [["light", "pans"]], probabilities=True)
    assert max(len(row[name].partition(".")[2]) for name in ("confidence", "p(bad)", "p(good)")) == 6


def test_what_is_noted_on_domains_is_returned_once(model: Model, tmp_path: Path):
    source = tmp_path / "in.csv"
    source.write_text("text,domain\nlight one,wine\nlight two,wine\n", encoding="utf-8")
    done = predict_file(model, source, tmp_path / "out.csv", Columns())
    assert [note.message.startswith("Domain 'wine' was not in training") for note in done.notes] == [True]
    assert (done.rows, done.without_text, done.abstained) == (2, 0, 0)


def test_a_column_that_would_be_written_twice_is_refused(model: Model, tmp_path: Path):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("text,confidence,prediction\nlight one,1,good\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"in\.csv has a column 'prediction', 'confidence' already"):
        predict_file(model, source, target, Columns())
    assert not target.exists()
