"""The answers to held-out rows that a run leaves beside its model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from multidomain.data.corpus import Corpus
from multidomain.data.named.registry import load_corpus
from multidomain.data.settings import SplitSettings
from multidomain.data.splits import Split, split_by
from multidomain.errors import ModelError
from multidomain.evaluation.evaluate import Evaluation, baselines, evaluate, evaluate_corpus
from multidomain.runs.predictions import HeldOutPredictions, _spread
from multidomain.runs.scoring import Scored, train_and_score
from multidomain.training.settings import RunSettings

CORPUS = load_corpus("demo").thinned(20)
SPLIT = split_by(CORPUS, SplitSettings(unlabelled=("shoes",)))
SMALL = {"hidden": (8,), "shared_size": 6, "private_size": 4}


def scored_by(method: str, corpus: Corpus = CORPUS, split: Split = SPLIT, **settings: object) -> Scored:
    run = RunSettings(method=method, method_settings=settings, training={"max_epochs": 2})
    return train_and_score(corpus, split, run)


@pytest.fixture(scope="module")
def scored() -> Scored:
    return scored_by("man-nll", **SMALL)


def test_saved_and_read_again(scored: Scored, tmp_path: Path):
    kept = HeldOutPredictions.of(scored, CORPUS, SPLIT)
    kept.save(tmp_path)
    again = HeldOutPredictions.load(tmp_path)
    rows = np.concatenate([SPLIT.dev, SPLIT.test])
    assert list(again.parts) == ["dev"] * len(SPLIT.dev) + ["test"] * len(SPLIT.test)
    assert list(again.texts) == list(CORPUS.documents[rows])
    assert list(again.labels) == list(CORPUS.labels[rows])
    assert list(again.domains) == list(CORPUS.domains[rows])
    expected = scored.trained.model.predict_proba(CORPUS.documents[rows], list(CORPUS.domains[rows]))
    np.testing.assert_allclose(again.probabilities, expected, atol=1e-6)
    np.testing.assert_array_equal(again.shared, kept.shared)
    np.testing.assert_array_equal(again.private, kept.private)


def test_private_features_are_of_the_own_domain(scored: Scored):
    kept = HeldOutPredictions.of(scored, CORPUS, SPLIT)
    domains, model = kept.domains[kept.featured], scored.trained.model
    assert np.isnan(kept.private[domains == "shoes"]).all(), "the domain has no labels"
    for name in ("books", "kitchen"):
        texts = kept.texts[kept.featured][domains == name]
        expected = model.private_features(model.encode(texts), name)
        np.testing.assert_allclose(kept.private[domains == name], expected, rtol=1e-4, atol=1e-6)


def test_a_model_without_features_and_rows_without_text(tmp_path: Path):
    x = csr_matrix(np.random.default_rng(0).integers(0, 3, (len(CORPUS), 5)).astype(np.float32))
    vectors = Corpus(x, CORPUS.labels, CORPUS.domains)
    HeldOutPredictions.of(scored_by("fa-lr", vectors), vectors, SPLIT).save(tmp_path)
    again = HeldOutPredictions.load(tmp_path)
    assert again.shared is None and again.private is None
    assert set(again.texts) == {None}


def test_every_domain_has_its_share_of_features():
    domains = np.array(["a"] * 900 + ["b"] * 90 + ["c"] * 10, dtype=object)
    chosen = _spread(domains, 300, seed=0)
    assert [int((domains[chosen] == name).sum()) for name in "abc"] == [100, 90, 10]
    assert len(set(chosen)) == len(chosen)


def test_missing_and_damaged_files(scored: Scored, tmp_path: Path):
    with pytest.raises(ModelError, match="does not hold the predictions"):
        HeldOutPredictions.load(tmp_path)
    HeldOutPredictions.of(scored, CORPUS, SPLIT).save(tmp_path)
    path = tmp_path / "held_out.jsonl"
    path.write_text(path.read_text(encoding="utf-8")[:-30], encoding="utf-8")
    with pytest.raises(ModelError, match="damaged"):
        HeldOutPredictions.load(tmp_path)


def evaluated(scored: Scored, split: Split) -> Evaluation:
    """As a run in a folder scores its test rows."""
    trained, rows = scored.trained, split.test
    simpler = baselines(trained.model, CORPUS, rows, trained.encoded, split.train)
    return evaluate(trained.model, CORPUS, rows, scored.test, baselines=simpler)


def test_simpler_answers_beside_the_model(scored: Scored):
    model = scored.trained.model
    for score in evaluated(scored, SPLIT).domains:
        rows = SPLIT.test[CORPUS.domains[SPLIT.test] == score.domain]
        shared = model.predict(CORPUS.documents[rows]) == CORPUS.labels[rows]
        assert score.shared_accuracy == pytest.approx(shared.mean())
        labels = CORPUS.labels[SPLIT.train[CORPUS.domains[SPLIT.train] == score.domain]]
        if score.domain != "shoes":
            most = max(set(labels), key=list(labels).count)
            assert score.majority_accuracy == pytest.approx((CORPUS.labels[rows] == most).mean())
    without, notes = evaluate_corpus(model, CORPUS, SPLIT.test)
    assert "shared_accuracy" not in json.dumps(without.as_json())
    assert not notes


def test_a_domain_specific_model_has_no_shared_answer():
    split = split_by(CORPUS, SplitSettings())
    scores = evaluated(scored_by("lr", split=split, category="domain-specific"), split).domains
    assert all(score.shared_accuracy is None and score.majority_accuracy is not None for score in scores)
