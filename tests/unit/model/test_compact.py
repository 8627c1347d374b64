"""Compact models: smaller, the same where it counts, and like any other once they are saved."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from multidomain import MultiDomainClassifier
from multidomain.data.named.registry import load_corpus
from multidomain.data.splits import default_split
from multidomain.errors import ConfigError
from multidomain.explain.occlusion import explain
from multidomain.methods.registry import METHODS
from multidomain.model.compact import column_sizes
from multidomain.model.model import Model
from multidomain.training.settings import RunSettings
from multidomain.training.train import Trained, train_model

Run = Callable[..., tuple[int, str, str]]
CORPUS = load_corpus("demo")
WHOLE = default_split(CORPUS)
SPLIT = replace(WHOLE, train=np.delete(WHOLE.train, np.s_[::5]), unlabelled=WHOLE.train[::5])
METHODS_AND_SETTINGS = [
    ("fa-lr", {"C": 1.0}),
    ("lr", {"C": 1.0, "category": "domain-specific"}),
    ("sped", {"C": 1.0, "denoised_length": 0.0}),
    ("sped", {"C": 1.0, "denoised_length": 0.7, "denoised": 20}),
    ("self-training", {"base": "svm", "base_settings": {"C": 1.0}}),
]


def trained(method: str = "sped", tolerance: float | None = 0.05, **settings: object) -> Trained:
    run = RunSettings(method=method, method_settings=settings, objective={"compact": tolerance})
    return train_model(CORPUS, SPLIT, run)


def probabilities(model: Model, rows: np.ndarray) -> np.ndarray:
    return model.predict_proba(list(CORPUS.documents[rows]), list(CORPUS.domains[rows]))


@pytest.mark.parametrize(("method", "settings"), METHODS_AND_SETTINGS)
def test_a_compact_model_is_smaller_and_changes_no_more_than_it_may(tmp_path: Path, method: str, settings: dict):
    both = trained(method, **settings)
    assert both.whole is not None
    small, whole = both.model, both.whole.model
    assert small.features.n_inputs < whole.features.n_inputs and small.n_bytes < whole.n_bytes
    assert set(small.features.vocabulary) < set(whole.features.vocabulary)
    before, after = (probabilities(model, SPLIT.dev) for model in (whole, small))
    assert (before.argmax(axis=1) != after.argmax(axis=1)).sum() <= 0.05 * len(SPLIT.dev)
    assert np.array_equal(both.probabilities(CORPUS, SPLIT.dev), after)
    assert not np.array_equal(before, after)

    small.save(tmp_path)
    again = Model.load(tmp_path)
    assert np.array_equal(probabilities(again, SPLIT.test), probabilities(small, SPLIT.test))
    assert explain(again, "a delightful novel", "books").words[1].total != 0


def test_a_tolerance_of_zero_changes_no_dev_prediction():
    both = trained("fa-lr", tolerance=0.0, C=0.1)
    before, after = (probabilities(t.model, SPLIT.dev).argmax(axis=1) for t in (both.whole, both))
    assert np.array_equal(before, after)


@pytest.mark.parametrize(("method", "settings"), METHODS_AND_SETTINGS)
def test_all_weights_are_the_whole_method(method: str, settings: dict):
    whole = trained(method, tolerance=None, **settings)
    sizes = column_sizes(whole.encoded[SPLIT.train])
    pruned, columns = whole.model.method.pruned(sizes, 1.0)
    assert np.array_equal(columns, np.arange(len(sizes)))
    assert pruned.weights().keys() == whole.model.method.weights().keys()
    x = whole.encoded[SPLIT.test]
    for d in range(4):
        assert np.array_equal(pruned.calibrated_logits(x, d), whole.model.method.calibrated_logits(x, d))


def test_what_is_kept_moves_logits_most():
    whole = trained("lr", tolerance=None, C=1.0)
    x = whole.encoded[SPLIT.train]
    sizes, weight = column_sizes(x), whole.model.method.weight[0]
    assert np.allclose(sizes, np.sqrt((x.toarray() ** 2).mean(axis=0)))
    _, columns = whole.model.method.pruned(sizes, 0.1)
    moves = sizes * np.abs(weight[:, 1] - weight[:, 0])
    assert moves[columns].min() >= np.delete(moves, columns).max()
    assert len(columns) == pytest.approx(0.1 * len(sizes), abs=3)


def test_logits_of_each_domain_follow_those_of_the_whole_model():
    """Rows are shorter without the dropped words, and so their scores would be larger."""
    both = trained("sped", tolerance=0.05, C=1.0, denoised_length=0.0)
    p = [np.log(probabilities(t.model, SPLIT.dev)) for t in (both.whole, both)]
    before, after = (logp[:, 1] - logp[:, 0] for logp in p)
    for domain in CORPUS.domain_names:
        here = CORPUS.domains[SPLIT.dev] == domain
        assert before[here].mean() == pytest.approx(after[here].mean(), abs=1e-4)
        assert np.polyfit(after[here], before[here], 1)[0] == pytest.approx(1, abs=1e-3)


def test_methods_say_whether_they_can_do_with_fewer_columns():
    able = {name for name, entry in METHODS.items() if entry.requirements().prunable}
    assert {"sped", "lr", "svm", "ls", "fa-lr", "fa-svm", "rmtl", "cmsc-lr", "mtl-graph", "self-training"} <= able
    assert able.isdisjoint({"man-nll", "mlp", "msda", "majority", "ensemble"})


def test_what_cannot_be_made_compact_is_refused(tmp_path: Path, run: Run):
    for method in ("man-nll", "auto"):
        code, _, err = run("train", "demo", "-o", tmp_path / "m", "--method", method, "--compact", "0.01")
        assert code == 2
        assert "'man-nll' cannot be made compact: it cannot do without some of its n-grams." in err
        assert "Leave out --compact, or use a linear method, such as --method sped." in err
    with pytest.raises(ConfigError, match="needs dev rows"):
        MultiDomainClassifier("lr", compact=0.1).fit(["fine", "poor"] * 5, ["good", "bad"] * 5)
    with pytest.raises(ConfigError, match="needs texts, and not vectors"):
        MultiDomainClassifier("lr", compact=0.1).fit(np.eye(2)[[0, 1] * 100], ["good", "bad"] * 100)


def test_the_estimator_has_compact_models_too():
    texts, labels, domains = (list(values) for values in (CORPUS.documents, CORPUS.labels, CORPUS.domains))
    whole, small = (
        MultiDomainClassifier("lr", compact=compact, method_settings={"C": 1.0}, random_state=0).fit(
            texts, labels, domains=domains
        )
        for compact in (None, 0.05)
    )
    assert small.model_.n_bytes < whole.model_.n_bytes
    assert (small.predict(texts, domains) == whole.predict(texts, domains)).mean() > 0.9


def test_a_run_records_what_was_lost_and_saved(tmp_path: Path, run: Run):
    command = ("train", "demo", "-o", tmp_path, "--method", "lr", "--set", "C=1", "--compact", "0.05")
    code, out, err = run(*command)
    assert code == 0, err
    said = next(line for line in out.splitlines() if line.startswith("compact: "))
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    found, model = metrics["result"]["compaction"], Model.load(tmp_path)
    assert metrics["settings"]["objective"]["compact"] == 0.05
    assert found["inputs"][1] == model.features.n_inputs < found["inputs"][0]
    assert found["n_bytes"][1] == model.n_bytes < found["n_bytes"][0]
    assert found["test_accuracy"][1] == metrics["result"]["test"]["accuracy"]
    assert found["dev_changed"] <= 0.05 * len(SPLIT.dev)
    assert f"{found['inputs'][1]:,} of {found['inputs'][0]:,} n-grams" in said
    assert f"test accuracy {found['test_accuracy'][1]:.2%}, before {found['test_accuracy'][0]:.2%}" in said

    code, out, err = run(*command, "--resume")  # it is only read again
    assert code == 0 and said in out, err
    code, _, err = run(*command[:-2], "--resume")
    assert code == 2 and "holds a finished run with other settings" in err
    code, _, err = run("report", tmp_path)
    assert code == 0 and said.removeprefix("compact: ") in (tmp_path / "report.html").read_text(), err
