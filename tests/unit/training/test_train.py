"""From a corpus to a model: what training may see, what it says, and what a run is told apart by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from multidomain.data.corpus import Corpus
from multidomain.data.splits import Split
from multidomain.data.values import corpus_from_rows
from multidomain.errors import ConfigError, DataError, ModelError, MultidomainWarning
from multidomain.training.train import RunSettings, fingerprint, resolved_device, train_model

SMALL = {"hidden": (6,), "shared_size": 4, "private_size": 4, "lr": 0.01}


def corpus(n: int = 24) -> Corpus:
    """Two domains; rows are numbered by a word of their own."""
    texts = [f"{'good' if i % 2 else 'bad'} thing word{i}" for i in range(n)]
    labels = ["yes" if i % 2 else "no" for i in range(n)]
    return corpus_from_rows(texts, labels, ["a" if i % 4 < 2 else "b" for i in range(n)])


def split(n: int = 24, **changed: Any) -> Split:
    """Rows 0-11 train, 12-15 dev, 16-19 test, 20-23 text only."""
    parts = {"train": range(12), "dev": range(12, 16), "test": range(16, 20), "unlabelled": range(20, n)}
    return Split(**{k: np.array(v, dtype=int) for k, v in {**parts, **changed}.items()}, rule="by hand")


def settings(seed: int = 0, **values: Any) -> RunSettings:
    training = {"max_epochs": 2, "batch_size": 4, "seed": seed, **values.pop("training", {})}
    own = {**SMALL, **values.pop("method_settings", {})}
    return RunSettings(**{"method": "man-nll", "method_settings": own, "training": training, **values})


def weights(trained: Any) -> dict[str, torch.Tensor]:
    return trained.model.method.state_dict()


def same(a: Any, b: Any) -> bool:
    return all(torch.equal(weights(a)[name], weights(b)[name]) for name in weights(a))


def test_features_are_fitted_on_training_and_unlabelled_text_only():
    vocabulary = set(train_model(corpus(), split(), settings()).model.features.vocabulary)
    assert {"good", "bad", "word0", "word11", "word20", "word23"} <= vocabulary
    assert not {f"word{i}" for i in range(12, 20)} & vocabulary


def test_test_rows_are_not_looked_at():
    """Other texts and labels in them change nothing."""
    original = train_model(corpus(), split(), settings())
    texts, labels = corpus().documents.copy(), corpus().labels.copy()
    texts[16:20], labels[16:20] = "something else entirely", "no"
    other = train_model(corpus_from_rows(texts, labels, corpus().domains), split(), settings())
    assert same(original, other)
    assert original.history.epochs[0].log == other.history.epochs[0].log


def test_labels_of_unlabelled_rows_are_not_looked_at():
    original = train_model(corpus(), split(), settings())
    labels = corpus().labels.copy()
    labels[20:24] = None
    assert same(
        original, train_model(corpus_from_rows(corpus().documents, labels, corpus().domains), split(), settings())
    )


def test_the_seed_decides_and_the_caller_s_random_state_is_left_alone():
    torch.manual_seed(3)
    state = torch.get_rng_state()
    a = train_model(corpus(), split(), settings(seed=1))
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(99)
    assert same(a, train_model(corpus(), split(), settings(seed=1)))
    assert not same(a, train_model(corpus(), split(), settings(seed=2)))


def test_what_comes_out():
    trained = train_model(corpus(), split(), settings())
    assert trained.model.classes == ("no", "yes")
    assert trained.model.domains == trained.model.labelled_domains == ("a", "b")
    assert trained.model.method_name == "man-nll"
    assert [epoch.epoch for epoch in trained.history.epochs] == [1, 2]
    assert trained.model.predict(["good thing"], ["a"]).shape == (1,)


def test_no_dev_rows_are_said():
    with pytest.warns(
        MultidomainWarning,
        match=r"There are no labelled development rows: nothing can be chosen by them",
    ):
        trained = train_model(corpus(), split(dev=[]), settings())
    assert trained.history.best_epoch == 2


def test_one_domain_is_said():
    whole = corpus()
    only = corpus_from_rows(whole.documents, whole.labels, ["a"] * len(whole))
    with pytest.warns(MultidomainWarning, match="nothing to adapt"):
        trained = train_model(only, split(), settings())
    assert trained.model.method.D is None
    assert trained.model.domains == ("a",)


def test_no_labels_at_all():
    with pytest.raises(DataError, match="No row to train on has a label"):
        train_model(corpus_from_rows(corpus().documents, None, corpus().domains), split(), settings())


def test_settings_are_checked_before_any_work(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("multidomain.training.train.NgramFeaturizer", None)
    with pytest.raises(ConfigError, match="There is no method 'man-nil'"):
        train_model(corpus(), split(), settings(method="man-nil"))
    with pytest.raises(ConfigError, match="'lamb' is not a setting"):
        train_model(corpus(), split(), settings(method_settings={"lamb": 1}))


def test_domain_specific_with_a_domain_without_labels():
    hidden = split().hide_labels(corpus(), ["b"])
    mlp = settings(method="mlp", method_settings={"category": "domain-specific"})
    with pytest.raises(
        ConfigError, match="A domain-specific model learns each domain from its own labels, and 'b' has none"
    ):
        train_model(corpus(), hidden, mlp)


def test_a_run_goes_on_from_its_checkpoint(tmp_path: Path):
    every_step = settings(training={"checkpoint_seconds": 0})
    path = tmp_path / "c"
    whole = train_model(corpus(), split(), every_step, checkpoint_path=path)
    assert path.exists()
    again = train_model(corpus(), split(), every_step, checkpoint_path=path)
    assert same(whole, again)
    assert again.history == whole.history, "it was over, so nothing was run, seconds included"


def test_a_checkpoint_of_other_settings_or_data_is_refused(tmp_path: Path):
    path = tmp_path / "c"
    train_model(corpus(), split(), settings(training={"checkpoint_seconds": 0}), checkpoint_path=path)
    with pytest.raises(ModelError, match="belongs to a run with other settings or other data"):
        train_model(corpus(), split(), settings(seed=5), checkpoint_path=path)


@pytest.mark.parametrize(
    "changed",
    [
        settings(seed=1),
        settings(method="man-l2"),
        settings(method_settings={"lam": 0.5}),
        settings(features={"weighting": "tfidf"}),
        settings(training={"max_epochs": 3}),
        settings(training={"balanced": True}),
    ],
    ids=["seed", "method", "lam", "features", "epochs", "balanced"],
)
def test_fingerprint_tells_settings_apart(changed: RunSettings):
    assert fingerprint(corpus(), split(), changed) != fingerprint(corpus(), split(), settings())


def test_fingerprint_tells_data_and_splits_apart():
    base = fingerprint(corpus(), split(), settings())
    texts, labels = corpus().documents.copy(), corpus().labels.copy()
    texts[3] = "another text"
    assert fingerprint(corpus_from_rows(texts, labels, corpus().domains), split(), settings()) != base
    assert fingerprint(corpus(), split(train=range(11), unlabelled=[11, *range(20, 24)]), settings()) != base
    assert fingerprint(corpus(), split(dev=[12], unlabelled=[13, 14, 15, *range(20, 24)]), settings()) != base
    assert fingerprint(corpus(), split(train=[*range(11), 12], dev=[11, 13, 14, 15]), settings()) != base


def test_fingerprint_is_the_same_for_the_same_run():
    base = fingerprint(corpus(), split(), settings())
    assert fingerprint(corpus(), split(), settings()) == base
    assert fingerprint(corpus(), split(), settings(training={"checkpoint_seconds": 3})) == base
    assert fingerprint(corpus(), split(test=[16]), settings()) == base, "test rows do not matter"
    said = settings(method_settings={"dropout": 0.4})  # the default, written out
    assert fingerprint(corpus(), split(), said) == base


def test_all_settings_can_be_written_down():
    record = settings(method="sp").complete()
    assert record["method_settings"]["dropout"] == 0.4
    assert record["method_settings"]["hidden"] == [6]
    assert record["features"] == {"weighting": "counts", "max_features": 5000, "ngram_range": [1, 2]}
    assert record["training"]["patience"] == 5


def test_faults_of_all_parts_come_at_once():
    with pytest.raises(ConfigError) as caught:
        RunSettings.parse({"features": {"max_features": 0}, "training": {"seed": -1}, "metod": "sp"}, "run")
    for fault in (
        r"'features\.max_features'",
        r"'training\.seed'",
        r"'metod' is not a setting\. Did you mean 'method'",
    ):
        assert caught.match(fault)


def test_devices():
    assert resolved_device("cpu") == torch.device("cpu")
    if not torch.cuda.is_available():
        assert resolved_device("auto") == torch.device("cpu")
        with pytest.raises(
            ConfigError, match=r"Device 'cuda' was asked for and there is none\. Use --device cpu or auto"
        ):
            resolved_device("cuda")
