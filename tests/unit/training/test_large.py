"""What does not fit into memory is trained on as what does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from multidomain import arrays
from multidomain.bench.generated import generated_corpus
from multidomain.data.corpus import Corpus
from multidomain.data.readers.read import read_corpus
from multidomain.data.splits import holdout_split
from multidomain.data.texts import Texts
from multidomain.features import sparse_rows, tokens
from multidomain.kernels import parallel
from multidomain.methods.sped import views, weights
from multidomain.model import prediction
from multidomain.training.settings import RunSettings
from multidomain.training.train import Trained, train_model

LIMITS = [
    (arrays, "LARGE"),
    (arrays, "_ROWS_AT_A_TIME"),
    (sparse_rows, "_VALUES_AT_A_TIME"),
    (tokens, "_CHUNKS_AT_A_TIME"),
    (parallel, "_MOST_ROWS"),
    (weights, "_ROWS_AT_A_TIME"),
    (views, "_ROWS_AT_A_TIME"),
    (prediction, "_ROWS_AT_A_TIME"),
]


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module, name in LIMITS:
        monkeypatch.setattr(module, name, 1000 if "CHUNKS" not in name else 2)
    yield


def write_rows(path: Path) -> None:
    """Two of three domains have labels, but for some rows."""
    corpus = generated_corpus(3000, 15, 3)
    labels = [None if i % 50 == 0 or corpus.domain_codes[i] == 2 else corpus.labels[i] for i in range(3000)]
    pl.DataFrame({"text": list(corpus.documents), "label": labels, "domain": list(corpus.domains)}).write_parquet(path)


def trained_on(corpus: Corpus, **settings: object) -> tuple[Trained, np.ndarray]:
    split = holdout_split(corpus)
    trained = train_model(corpus, split, RunSettings(method_settings={"denoised": 0, **settings}))
    return trained, trained.probabilities(corpus, split.test)


def is_on_disk(array: np.ndarray) -> bool:
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap):
            return True
        array = array.base  # type: ignore[assignment]
    return False


@pytest.fixture
def in_memory(tmp_path: Path) -> tuple[Corpus, Trained, np.ndarray]:
    write_rows(tmp_path / "rows.parquet")
    corpus = read_corpus(tmp_path / "rows.parquet")
    return corpus, *trained_on(corpus)


def test_a_large_corpus_gives_the_same_model_bit_for_bit(
    tmp_path: Path, in_memory: tuple[Corpus, Trained, np.ndarray], everything_is_large: None
):
    expected_corpus, expected, expected_answers = in_memory
    corpus = read_corpus(tmp_path / "rows.parquet")
    assert isinstance(corpus.documents, Texts) and not isinstance(expected_corpus.documents, Texts)
    assert corpus.content_hash() == expected_corpus.content_hash()
    np.testing.assert_array_equal(corpus.text_keys(), expected_corpus.text_keys())
    trained, answers = trained_on(corpus)
    for matrix, is_large in ((trained.encoded._matrix, True), (expected.encoded._matrix, False)):
        assert {is_on_disk(part) for part in (matrix.data, matrix.indices)} == {is_large}
    assert trained.model.features.vocabulary == expected.model.features.vocabulary
    for name, array in expected.model.method.weights().items():
        np.testing.assert_array_equal(trained.model.method.weights()[name], array, err_msg=name)
    assert trained.history == expected.history
    assert trained.history.class_priors  # a domain has no labels, so its text was learnt from
    np.testing.assert_array_equal(answers, expected_answers)
