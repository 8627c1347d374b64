"""Weights of rows: which are refused, where they go, and how they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from multidomain.data.columns import Columns
from multidomain.data.corpus import Corpus
from multidomain.data.readers.read import read_corpus
from multidomain.data.values import corpus_from_rows
from multidomain.errors import DataError

TEXTS, LABELS, DOMAINS = ["a", "b", "c", "d"], ["yes", "no", None, "no"], ["x", "x", "y", "y"]


def corpus(weights: Any = (1, 2, 3, 0.5)) -> Corpus:
    return Corpus(TEXTS, LABELS, DOMAINS, weights=weights)


@pytest.mark.parametrize(
    ("weight", "shown"),
    [
        (-1, "-1"),
        (np.float64(-0.5), "-0.5"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (None, "None"),
        ("x", "'x'"),
    ],
)
def test_bad_weights_are_refused_with_their_row(weight: Any, shown: str):
    message = f"the weight is {shown}\\. Expected a finite number that is not negative\\. Correct it"
    with pytest.raises(DataError, match=f"row 2: {message}"):
        corpus([1, weight, 1, 1])
    with pytest.raises(DataError, match=f"index 1: {message}"):
        corpus_from_rows(TEXTS, LABELS, DOMAINS, weights=[1, weight, 1, 1])


def test_no_weight_at_all_is_refused():
    with pytest.raises(
        DataError, match="The weights of all 3 labelled rows of 'corpus' are zero: nothing can be learnt"
    ):
        corpus([0, 0, 1, 0])


def test_their_number_is_checked():
    with pytest.raises(DataError, match="has 4 documents but 3 weights"):
        corpus([1, 2, 3])


def test_a_weight_of_0_hides_the_label():
    labels = np.array(LABELS, dtype=object)
    found = Corpus(TEXTS, labels, DOMAINS, weights=[1, 0, 0, 2])
    assert found.labels.tolist() == ["yes", None, None, "no"] and found.labelled.tolist() == [True, False, False, True]
    assert labels.tolist() == LABELS, "the caller's array is left alone"


def test_weights_go_with_their_rows():
    assert corpus().weights.tolist() == [1, 2, 3, 0.5]
    assert corpus().select(np.array([3, 1])).weights.tolist() == [0.5, 2]
    assert corpus().thinned(1).weights.tolist() == [1, 2, 3, 0.5]
    both = Corpus.concat([corpus(), Corpus(["e"], ["yes"], ["x"])])
    assert both.weights.tolist() == [1, 2, 3, 0.5, 1], "rows of a corpus without weights count once"
    assert Corpus(TEXTS, LABELS, DOMAINS).weights is None


def test_weights_are_part_of_the_content():
    plain = Corpus(TEXTS, LABELS, DOMAINS)
    hashes = {corpus().content_hash(), corpus([1, 2, 3, 0.25]).content_hash(), plain.content_hash()}
    assert len(hashes) == 3
    assert corpus().content_hash() == corpus().content_hash()


def write(path: Path, rows: list[str], header: str = "text,label,weight") -> Path:
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def test_a_weight_column_is_read_where_it_is_named(tmp_path: Path):
    path = write(tmp_path / "data.csv", ["a,yes,2", "b,no,0.5", "c,,"])
    read = read_corpus(path, Columns(weight="weight"))
    assert read.weights.tolist() == [2, 0.5, 1], "a row without a label needs no weight"
    assert read.columns["weight"] == "weight"
    assert read_corpus(path).weights is None, "a column is never taken for weights by its name"


def test_a_labelled_training_row_needs_a_weight(tmp_path: Path):
    rows = ["a,yes,2,train", "b,no,,train", "c,no,,dev"]
    path = write(tmp_path / "data.csv", rows, "text,label,weight,split")
    with pytest.raises(DataError, match=r"data\.csv, row 3: the weight is ''\. Expected a finite number"):
        read_corpus(path, Columns(weight="weight"))
    path = write(tmp_path / "data.csv", [rows[0], rows[2]], "text,label,weight,split")
    assert read_corpus(path, Columns(weight="weight")).weights.tolist() == [2, 1]


def test_files_of_other_parts_need_no_weights(tmp_path: Path):
    path = write(tmp_path / "dev.csv", ["a,yes"], "text,label")
    assert read_corpus(path, Columns(weight="weight"), part="dev").weights is None
    with pytest.raises(DataError, match=r"dev\.csv has no column 'weight' \(asked for as the weight\)"):
        read_corpus(path, Columns(weight="weight"), part="train")
