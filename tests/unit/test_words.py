"""Texts read as words in their order, from a file to a saved model and back."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from multidomain.data.named.registry import load_corpus
from multidomain.data.readers.read import read_corpus
from multidomain.data.settings import SplitSettings
from multidomain.data.splits import split_by
from multidomain.errors import ConfigError, DataError
from multidomain.estimator import MultiDomainClassifier
from multidomain.features.word_vectors import WordVectors, write_vectors
from multidomain.model.model import Model
from multidomain.training.settings import RunSettings
from multidomain.training.train import train_model

SMALL = {"extractor": "cnn", "filters": 8, "dimension": 10, "shared_size": 8, "private_size": 4, "lr": 0.01, "k": 1}
ODD = ["", "xyzzy plugh", "good", "!" * 3, "word " * 3000, "Ünïcödé 漢字 😀"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULTIDOMAIN_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    demo = load_corpus("demo")
    lines = ["text,label,domain"]
    for text, label, domain in zip(demo.documents, demo.labels, demo.domains, strict=True):
        lines.append(f'"{text}",{"" if domain == "shoes" else label},{domain}')
    path = tmp_path / "reviews.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def trained(reviews: Path, **words: object) -> Model:
    corpus = read_corpus(reviews)
    settings = RunSettings(
        method="man-nll", method_settings=SMALL, features={"sequences": words}, training={"max_epochs": 2}
    )
    return train_model(corpus, split_by(corpus, SplitSettings()), settings).model


def test_a_model_goes_from_machine_to_machine(reviews: Path, tmp_path: Path):
    pytest.importorskip("gensim")
    model = trained(reviews)
    domains = ["books", "shoes", None, "kitchen", "books", "shoes"]
    expected = model.predict_proba(ODD, domains)
    assert np.isfinite(expected).all()
    model.save(tmp_path / "model")
    shutil.move(tmp_path / "model", tmp_path / "elsewhere")
    shutil.rmtree(tmp_path / "cache")
    loaded = Model.load(tmp_path / "elsewhere")
    kept, weights = loaded.method.weights(), model.method.weights()
    assert kept.keys() == weights.keys() and all((kept[name] == weights[name]).all() for name in weights)
    np.testing.assert_allclose(loaded.predict_proba(ODD, domains), expected, rtol=1e-5, atol=1e-7)
    assert str(tmp_path) not in "".join(p.read_text() for p in (tmp_path / "elsewhere").glob("*.json"))


def test_documents_do_not_depend_on_their_neighbours(reviews: Path):
    model = trained(reviews, vectors="random")
    together = model.predict_proba(ODD, ["books"] * len(ODD))
    alone = np.vstack([model.predict_proba([text], ["books"]) for text in ODD])
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-7)


def test_given_vectors_are_where_the_words_start(reviews: Path, tmp_path: Path):
    words = ("good", "the")
    write_vectors(WordVectors(words, np.full((2, 10), 7.0, dtype=np.float32)), tmp_path / "given.txt")
    corpus = read_corpus(reviews)
    settings = {**SMALL, "lr": 1e-9}
    run = RunSettings(
        method="man-nll",
        method_settings=settings,
        features={"sequences": {"vectors": str(tmp_path / "given.txt")}},
        training={"max_epochs": 1},
    )
    model = train_model(corpus, split_by(corpus, SplitSettings()), run).model
    known = [model.features.vocabulary.index(word) for word in words if word in model.features.vocabulary]
    assert known
    np.testing.assert_allclose(model.method.F_s.table[known].detach(), 7.0, atol=1e-3)
    with pytest.raises(ConfigError, match="have 10 numbers each, and the extractor expects 9"):
        train_model(
            corpus,
            split_by(corpus, SplitSettings()),
            run.model_copy(update={"method_settings": {**SMALL, "dimension": 9}}),
        )
    with pytest.raises(DataError, match=r"There is no file .*nowhere\.txt with word vectors"):
        trained(reviews, vectors=str(tmp_path / "nowhere.txt"))


@pytest.mark.parametrize("extractor", ["cnn", "bilstm"])
def test_frozen_vectors_stay_as_they_are(reviews: Path, tmp_path: Path, extractor: str):
    write_vectors(WordVectors(("good", "the"), np.full((2, 10), 7.0, dtype=np.float32)), tmp_path / "given.txt")
    corpus = read_corpus(reviews)
    sizes = {"filters": 8} if extractor == "cnn" else {"state": 6}
    settings = {"extractor": extractor, "dimension": 10, "tune_vectors": False, "lr": 0.01, "k": 1, **sizes}
    run = RunSettings(
        method="man-nll",
        method_settings=settings,
        features={"sequences": {"vectors": str(tmp_path / "given.txt")}},
        training={"max_epochs": 1},
    )
    model = train_model(corpus, split_by(corpus, SplitSettings()), run).model
    at = model.features.vocabulary.index("the")
    tables = [F.table.detach() for F in model.method.extractors]
    assert len(tables) == 2
    for table in tables:
        np.testing.assert_array_equal(table[at], 7.0)
        copies = table.view(-1, model.features.n_inputs, 10)
        assert all((copy == copies[0]).all() for copy in copies)  # nothing was learnt in any domain
    np.testing.assert_array_equal(tables[0], tables[1][: len(tables[0])])


def test_the_estimator_reads_words_too():
    demo = load_corpus("demo")
    options = {name: value for name, value in SMALL.items() if name not in ("extractor", "lr", "k")} | {"filters": 24}
    classifier = MultiDomainClassifier(
        "man-nll",
        extractor="cnn",
        vectors="random",
        lr=0.01,
        k=1,
        method_settings=options,
        max_epochs=10,
        random_state=0,
    )
    classifier.fit(demo.documents, demo.labels, domains=demo.domains)
    assert classifier.score(demo.documents, demo.labels, domains=demo.domains) > 0.6
    with pytest.raises(ConfigError, match="reads token sequences, and the documents are vectors"):
        classifier.fit(np.eye(20), ["a", "b"] * 10, domains=["x"] * 10 + ["y"] * 10)
