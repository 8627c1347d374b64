from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from multidomain.errors import ConfigError
from multidomain.features.base import restored, stored
from multidomain.features.subwords import SubwordFeaturizer


@pytest.fixture
def subwords(tiny_encoder: Path) -> SubwordFeaturizer:
    return SubwordFeaturizer(max_subwords=10, source=str(tiny_encoder)).fit(["never read"])


def read(features: SubwordFeaturizer, texts: list[str]) -> list[str]:
    x = features.transform(texts)
    ids = [x.indices[start:end] for start, end in zip(x.indptr[:-1], x.indptr[1:], strict=True)]
    return [" ".join(features.vocabulary[i] for i in row) for row in ids]


def test_texts_are_read_as_the_encoder_was_trained_to(subwords: SubwordFeaturizer):
    assert read(subwords, ["A FINE pan.", "", "cab", "日"]) == [
        "[CLS] a fine pan . [SEP]",
        "[CLS] [SEP]",
        "[CLS] c ##a ##b [SEP]",
        "[CLS] [UNK] [SEP]",
    ]
    assert subwords.notes == ()


def test_what_is_kept_of_a_long_text(tiny_encoder: Path, subwords: SubwordFeaturizer):
    text = "good good good good bad bad bad film film film"
    assert read(subwords, [text, "good"]) == [
        "[CLS] good good good good bad film film film [SEP]",
        "[CLS] good [SEP]",
    ]
    (note,) = subwords.notes
    assert str(note) == (
        "1 text of 2 have more than 10 subwords; the encoder reads their beginnings and ends. max_subwords=... lets it "
        "read more."
    )
    head = SubwordFeaturizer(max_subwords=10, truncation="head", source=str(tiny_encoder)).fit([])
    assert read(head, [text]) == ["[CLS] good good good good bad bad bad film [SEP]"]


def test_a_text_of_a_million_characters(subwords: SubwordFeaturizer):
    """Of words, of one word, and of half a character that no file can hold."""
    read_of_it = read(subwords, ["good " * 200_000, "x" * 1_000_000, "\ud83d fine"])
    assert read_of_it[0] == "[CLS] good good good good good good good good [SEP]"
    assert read_of_it[1] == "[CLS] [UNK] [SEP]"
    assert read_of_it[2] == "[CLS] ? fine [SEP]"


def test_a_saved_tokenizer_needs_no_folder(subwords: SubwordFeaturizer):
    settings, arrays = stored(subwords)
    again = restored(json.loads(json.dumps(settings)), arrays)
    texts = ["a light pan, so good!", "an awful shoe"]
    assert (again.transform(texts) != subwords.transform(texts)).nnz == 0
    assert (again.n_inputs, again.vocabulary, again.stand_in) == (subwords.n_inputs, subwords.vocabulary, "[MASK]")


def test_an_empty_text_without_marks_is_a_subword_that_means_nothing(tiny_encoder: Path, tmp_path: Path):
    """Of no subwords at all the mean is not a number."""
    folder = Path(shutil.copytree(tiny_encoder, tmp_path / "own"))
    content = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps({**content, "post_processor": None}))
    subwords = SubwordFeaturizer(max_subwords=10, source=str(folder)).fit([])
    assert read(subwords, ["", "a fine pan", "  "]) == ["[UNK]", "a fine pan", "[UNK]"]


def test_vectors_are_refused(subwords: SubwordFeaturizer):
    with pytest.raises(ConfigError, match="reads texts, and these are vectors"):
        subwords.transform(csr_matrix(np.eye(2)))


def test_more_than_the_encoder_reads_is_refused(tiny_encoder: Path):
    with pytest.raises(ConfigError, match=r"reads at most 160 subwords of a text, and 200 are asked for. Use max_sub"):
        SubwordFeaturizer(max_subwords=200, source=str(tiny_encoder)).fit([])


@pytest.mark.parametrize("damage", [{}, {"version": "1.0", "model": {"type": "Magic"}}, {"model": 3}])
def test_a_tokenizer_that_is_none(subwords: SubwordFeaturizer, damage: dict[str, object]):
    settings, arrays = stored(subwords)
    with pytest.raises(Exception, match="does not describe a tokenizer"):
        restored({**settings, "tokenizer": damage}, arrays)


def test_a_tokenizer_of_another_encoder(subwords: SubwordFeaturizer):
    settings, arrays = stored(subwords)
    with pytest.raises(Exception, match="do not belong together"):
        restored({**settings, "n_inputs": 50}, arrays)
