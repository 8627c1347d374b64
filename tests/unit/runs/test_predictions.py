"""The answers to held-out rows that a run leaves beside its model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from multidomain.data.corpus import Corpus
from multidomain.data.named.registry import load_corpus
from multidomain.errors import ModelError
from multidomain.evaluation.evaluate import evaluate
from multidomain.model.model import Model
from multidomain.runs.predictions import HeldOutPredictions, _spread
from multidomain.runs.run import SplitSettings
from multidomain.training.train import RunSettings, train_model

CORPUS = load_corpus("demo").thinned(20)
SPLIT = SplitSettings(unlabelled=("shoes",)).split(CORPUS)
SMALL = {"hidden": (8,), "shared_size": 6, "private_size": 4}


def trained(method: str, corpus: Corpus = CORPUS, **settings: object) -> Model:
    run = RunSettings(method=method, method_settings=settings, training={"max_epochs": 2})
    return train_model(corpus, SPLIT, run).model


@pytest.fixture(scope="module")
def model() -> Model:
    return trained("man-nll", **SMALL)


def test_saved_and_read_again(model: Model, tmp_path: Path):
    kept = HeldOutPredictions.of(model, CORPUS, SPLIT)
    kept.save(tmp_path)
    again = HeldOutPredictions.load(tmp_path)
    rows = np.concatenate([SPLIT.dev, SPLIT.test])
    assert list(again.parts) == ["dev"] * len(SPLIT.dev) + ["test"] * len(SPLIT.test)
    assert list(again.texts) == list(CORPUS.documents[rows])
    assert list(again.labels) == list(CORPUS.labels[rows])
    assert list(again.domains) == list(CORPUS.domains[rows])
    expected = model.predict_proba(CORPUS.documents[rows], list(CORPUS.domains[rows]))
    np.testing.assert_allclose(again.probabilities, expected, atol=1e-6)
    np.testing.assert_array_equal(again.shared, kept.shared)
    np.testing.assert_array_equal(again.private, kept.private)


def test_private_features_are_of_the_own_domain(model: Model):
    kept = HeldOutPredictions.of(model, CORPUS, SPLIT)
    domains = kept.domains[kept.featured]
    assert np.isnan(kept.private[domains == "shoes"]).all(), "the domain has no labels"
    for name in ("books", "kitchen"):
        texts = kept.texts[kept.featured][domains == name]
        expected = model.private_features(texts, name)
        np.testing.assert_allclose(kept.private[domains == name], expected, rtol=1e-4, atol=1e-6)


def test_a_model_without_features_and_rows_without_text(tmp_path: Path):
    x = csr_matrix(np.random.default_rng(0).integers(0, 3, (len(CORPUS), 5)).astype(np.float32))
    vectors = Corpus(x, CORPUS.labels, CORPUS.domains)
    HeldOutPredictions.of(trained("fa-lr", vectors), vectors, SPLIT).save(tmp_path)
    again = HeldOutPredictions.load(tmp_path)
    assert again.shared is None and again.private is None
    assert set(again.texts) == {None}


def test_every_domain_has_its_share_of_features():
    domains = np.array(["a"] * 900 + ["b"] * 90 + ["c"] * 10, dtype=object)
    chosen = _spread(domains, 300, seed=0)
    assert [int((domains[chosen] == name).sum()) for name in "abc"] == [100, 90, 10]
    assert len(set(chosen)) == len(chosen)


def test_missing_and_damaged_files(model: Model, tmp_path: Path):
    with pytest.raises(ModelError, match="does not hold the answers"):
        HeldOutPredictions.load(tmp_path)
    HeldOutPredictions.of(model, CORPUS, SPLIT).save(tmp_path)
    path = tmp_path / "held_out.jsonl"
    path.write_text(path.read_text(encoding="utf-8")[:-30], encoding="utf-8")
    with pytest.raises(ModelError, match="damaged"):
        HeldOutPredictions.load(tmp_path)


def test_simpler_answers_beside_the_model(model: Model):
    scores = evaluate(model, CORPUS, SPLIT.test, train=SPLIT.train).domains
    for score in scores:
        rows = SPLIT.test[CORPUS.domains[SPLIT.test] == score.domain]
        shared = model.predict(CORPUS.documents[rows]) == CORPUS.labels[rows]
        assert score.shared_accuracy == pytest.approx(shared.mean())
        labels = CORPUS.labels[SPLIT.train[CORPUS.domains[SPLIT.train] == score.domain]]
        if score.domain != "shoes":
            most = max(set(labels), key=list(labels).count)
            assert score.majority_accuracy == pytest.approx((CORPUS.labels[rows] == most).mean())
    without = evaluate(model, CORPUS, SPLIT.test)
    assert "shared_accuracy" not in json.dumps(without.as_json())


def test_a_domain_specific_model_has_no_shared_answer():
    split = SplitSettings().split(CORPUS)
    run = RunSettings(method="lr", method_settings={"category": "domain-specific"})
    scores = evaluate(train_model(CORPUS, split, run).model, CORPUS, split.test, train=split.train).domains
    assert all(score.shared_accuracy is None and score.majority_accuracy is not None for score in scores)
