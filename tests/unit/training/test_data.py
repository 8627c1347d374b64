"""From a corpus and a split to encoded rows."""

from __future__ import annotations

import numpy as np
import pytest

from multidomain.data.corpus import Corpus
from multidomain.data.splits import Split
from multidomain.data.values import corpus_from_rows
from multidomain.features.base import Documents
from multidomain.features.ngrams import NgramFeaturizer
from multidomain.methods.data import TrainingData
from multidomain.training.data import EncodedRows, training_data

#        text, label, domain, part
ROWS = [
    ("red one", "no", "books", "train"),
    ("blue two", "yes", "kitchen", "train"),
    ("red two", "no", "books", "train"),
    ("green one", None, "books", "train"),
    ("green three", None, "music", "train"),
    ("blue one", "yes", "books", "dev"),
    ("blue three", "no", "kitchen", "dev"),
    ("red three", "yes", "music", "dev"),
    ("red red", None, "books", "dev"),
    ("yellow", "maybe", "games", "test"),
    ("blue blue", "yes", "music", "unlabelled"),
    ("zebra", "no", "games", "dev"),
]
VOCABULARY = ["blue", "green", "one", "red", "three", "two"]


def corpus() -> Corpus:
    texts, labels, domains, _ = zip(*ROWS, strict=True)
    return corpus_from_rows(list(texts), list(labels), list(domains))


def split(**changed: list[int]) -> Split:
    rows = {
        part: [i for i, row in enumerate(ROWS) if row[3] == part] for part in ("train", "dev", "test", "unlabelled")
    }
    return Split(**{part: np.array(r, dtype=int) for part, r in {**rows, **changed}.items()}, rule="by hand")


@pytest.fixture
def data() -> TrainingData:
    return encoded(split())


def encoded(split: Split) -> TrainingData:
    features = NgramFeaturizer(ngram_range=(1, 1)).fit(
        corpus().documents[np.concatenate([split.train, split.unlabelled])]
    )
    assert sorted(features.vocabulary) == VOCABULARY
    rows = np.concatenate([split.train, split.unlabelled, split.dev])
    encoded_rows = EncodedRows(features, Documents(corpus().documents), rows, len(corpus()))
    return training_data(corpus(), split, features, encoded_rows)


def texts(data: TrainingData, part: str, corpus_rows: list[int]) -> None:
    """Assert that a part holds the counts of these rows of the corpus."""
    examples = getattr(data, part)
    assert len(examples) == len(corpus_rows)
    features = NgramFeaturizer(ngram_range=(1, 1)).fit(
        corpus().documents[np.concatenate([split().train, split().unlabelled])]
    )
    expected = features.transform(corpus().documents[corpus_rows]).toarray()
    np.testing.assert_array_equal(examples.x.toarray(), expected)


def test_task(data: TrainingData):
    """Domains in the order of the corpus, without those that have no training text; classes sorted."""
    assert data.task.domains == ("books", "kitchen", "music")
    assert data.task.labelled == (0, 1)
    assert data.classes == ("no", "yes")
    assert (data.task.n_inputs, data.task.n_classes) == (6, 2)


def test_labelled(data: TrainingData):
    texts(data, "labelled", [0, 1, 2])
    assert data.labelled.d.tolist() == [0, 1, 0]
    assert data.labelled.y.tolist() == [0, 1, 0]


def test_text_is_all_training_and_unlabelled_text_without_labels(data: TrainingData):
    texts(data, "text", [0, 1, 2, 3, 4, 10])
    assert data.text.d.tolist() == [0, 1, 0, 0, 2, 2]
    assert data.text.y is None


def test_dev_has_labelled_rows_of_known_domains(data: TrainingData):
    for row, d, y in ((5, 0, 1), (6, 1, 0)):
        assert (d, y) in list(zip(data.dev.d.tolist(), data.dev.y.tolist(), strict=True)), row
    assert data.dev.d.max() < 3  # nothing of 'games'


def test_selection_never_sees_labels_of_a_target_domain(data: TrainingData):
    """Decision 5: 'music' has no training labels, so its labelled dev row must not choose the weights."""
    texts(data, "dev", [5, 6])
    assert data.dev.d.tolist() == [0, 1]


def test_no_dev_rows():
    data = encoded(split(dev=[]))
    assert len(data.dev) == 0
    assert data.dev.d.tolist() == data.dev.y.tolist() == []
