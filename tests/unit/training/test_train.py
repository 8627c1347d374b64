"""From a corpus to a model: what training may see, what it says, and what a run is told apart by."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from multidomain.data.corpus import Corpus
from multidomain.data.named.registry import load_corpus
from multidomain.data.splits import Split, holdout_split
from multidomain.data.values import corpus_from_rows
from multidomain.errors import ConfigError, DataError, ModelError, Note
from multidomain.metrics import selection_score
from multidomain.training.callbacks import Callback
from multidomain.training.settings import RunSettings
from multidomain.training.train import fingerprints, resolved_device, suited_device, train_model

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


def fingerprint_of(*run: Any) -> str:
    return fingerprints(*run)[0]


def weights(trained: Any) -> dict[str, np.ndarray]:
    return trained.model.method.weights()


def same(a: Any, b: Any) -> bool:
    return all(np.array_equal(weights(a)[name], weights(b)[name]) for name in weights(a))


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
    trained = train_model(corpus(), split(dev=[]), settings())
    (note,) = trained.notes
    assert note.kind == "no-dev-set"
    assert str(note).startswith("The dev set has no labelled rows: nothing can be selected on it")
    assert trained.history.best_epoch == 2


def test_one_domain_is_said():
    whole = corpus()
    only = corpus_from_rows(whole.documents, whole.labels, ["a"] * len(whole))
    trained = train_model(only, split(), settings())
    (note,) = trained.notes
    assert note.kind == "one-domain" and "nothing to adapt" in note.message
    assert str(note).endswith("Check the domain column (domain_column=...) if you expected more.")
    assert trained.model.method.D is None
    assert trained.model.domains == ("a",)


def test_callbacks_hear_the_notes_that_are_returned():
    heard: list[Note] = []

    class Ear(Callback):
        def on_note(self, note: Note) -> None:
            heard.append(note)

    whole = corpus()
    only = corpus_from_rows(whole.documents, whole.labels, ["a"] * len(whole))
    trained = train_model(only, split(dev=[]), settings(), callbacks=[Ear()])
    assert tuple(heard) == trained.notes
    assert [note.kind for note in heard] == ["one-domain", "no-dev-set"]
    assert not train_model(corpus(), split(), settings()).notes


def test_notes_of_members_are_those_of_the_ensemble_each_told_once():
    heard: list[Note] = []

    class Ear(Callback):
        def on_note(self, note: Note) -> None:
            heard.append(note)

    ensemble = RunSettings(method="ensemble", method_settings={"members": ("lr", "fa-lr")})
    trained = train_model(corpus(), split(dev=[]), ensemble, callbacks=[Ear()])
    assert [note.kind for note in trained.notes] == ["no-dev-set"]
    assert tuple(heard) == trained.notes


def test_probabilities_are_those_of_rows_encoded_for_the_run():
    """The same as those of the model that is asked later, for all parts of the split."""
    trained = train_model(corpus(), split(), settings())
    rows = np.array([17, 3, 21, 13, 16])
    expected = trained.model.predict_proba(corpus().documents[rows], corpus().domains[rows])
    np.testing.assert_array_equal(trained.probabilities(corpus(), rows), expected)


def test_further_rows_are_encoded_and_change_nothing():
    """Such as the test rows of a fold, whose classes must not be checked."""
    without = train_model(corpus(), split(test=[]), settings())
    also = train_model(corpus(), split(test=[]), settings(), also_encode=np.arange(16, 20))
    assert same(without, also)
    rows = np.arange(16, 20)
    expected = also.model.predict_proba(corpus().documents[rows], corpus().domains[rows])
    np.testing.assert_array_equal(also.probabilities(corpus(), rows), expected)


def test_no_labels_at_all():
    with pytest.raises(DataError, match="No row to train on has a label"):
        train_model(corpus_from_rows(corpus().documents, None, corpus().domains), split(), settings())


def test_settings_are_checked_before_any_work(monkeypatch: pytest.MonkeyPatch):
    for working in ("FEATURIZERS", "EncodedRows"):
        monkeypatch.setattr(f"multidomain.training.train.{working}", None)
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
        settings(features={"ngrams": {"weighting": "tfidf"}}),
        settings(training={"max_epochs": 3}),
        settings(training={"balanced": True}),
        settings(training={"clip_norm": 1}),
    ],
    ids=["seed", "method", "lam", "features", "epochs", "balanced", "clip norm"],
)
def test_fingerprint_tells_settings_apart(changed: RunSettings):
    assert fingerprint_of(corpus(), split(), changed) != fingerprint_of(corpus(), split(), settings())


def test_fingerprint_tells_data_and_splits_apart():
    base = fingerprint_of(corpus(), split(), settings())
    texts, labels = corpus().documents.copy(), corpus().labels.copy()
    texts[3] = "another text"
    assert fingerprint_of(corpus_from_rows(texts, labels, corpus().domains), split(), settings()) != base
    assert fingerprint_of(corpus(), split(train=range(11), unlabelled=[11, *range(20, 24)]), settings()) != base
    assert fingerprint_of(corpus(), split(dev=[12], unlabelled=[13, 14, 15, *range(20, 24)]), settings()) != base
    assert fingerprint_of(corpus(), split(train=[*range(11), 12], dev=[11, 13, 14, 15]), settings()) != base


def test_fingerprint_is_the_same_for_the_same_run():
    base = fingerprint_of(corpus(), split(), settings())
    assert fingerprint_of(corpus(), split(), settings()) == base
    assert fingerprint_of(corpus(), split(), settings(training={"checkpoint_seconds": 3})) == base
    assert fingerprint_of(corpus(), split(), settings(training={"recover": 3})) == base, "it may resume what diverged"
    assert fingerprint_of(corpus(), split(test=[16]), settings()) == base, "test rows do not matter"
    said = settings(method_settings={"dropout": 0.4})  # the default, written out
    assert fingerprint_of(corpus(), split(), said) == base


def before_objectives(run: RunSettings) -> dict[str, Any]:
    """The complete settings as they were when a run had neither metric nor class weights, nor an adversary priors.

    Gradients were not clipped then, no run recovered, rare n-grams were kept, and there were no encoders.
    """
    old = {name: value for name, value in run.complete().items() if name != "objective"}
    old["training"] = {n: v for n, v in old["training"].items() if n not in ("clip_norm", "recover")}
    old["features"] = {"ngrams": {n: v for n, v in old["features"]["ngrams"].items() if n != "min_df"}}
    later = ("D_norm", "lam_epochs", "class_priors", "encoder")
    return {**old, "method_settings": {n: v for n, v in old["method_settings"].items() if n not in later}}


def test_metric_and_class_weights_identify_a_run_only_where_they_are_not_at_their_defaults():
    digest = hashlib.sha256()
    run = settings()
    what = {**before_objectives(run), "selection": split().selection, "threads": 1}
    digest.update(json.dumps(what, sort_keys=True).encode() + corpus().content_hash().encode())
    for rows in (split().train, split().dev, split().unlabelled):
        digest.update(rows.tobytes() + b"|")
    assert fingerprints(corpus(), split(), run)[0] == digest.hexdigest(), "older checkpoints are resumed"
    others = [{"metric": "macro-f1"}, {"class_weight": "balanced"}, {"class_weight": {"yes": 2}}]
    of_others = {fingerprints(corpus(), split(), settings(objective=one)) for one in others}
    assert len({digest for both in of_others for digest in both}) == 6
    assert all(digest.hexdigest() not in both for both in of_others)


@pytest.mark.parametrize("method", ["lr", "fa-lr", "sped", "msda", "self-training"])
def test_methods_that_are_fitted_at_once_select_by_the_metric(method: str):
    """What they report is the dev score of what they keep, worked out from its predictions."""
    documents = load_corpus("demo").thinned(24)
    parts = holdout_split(documents, seed=2).hide_labels(documents, ["shoes"])

    class Ear(Callback):
        def __init__(self) -> None:
            self.told: list[tuple[dict[str, Any], float | None]] = []

        def on_candidate(self, values: Any, dev_score: float | None) -> None:
            self.told.append((dict(values), dev_score))

    reached = {}
    for metric in ("accuracy", "macro-f1", "worst-domain"):
        ear, run = Ear(), RunSettings(method=method, objective={"metric": metric})
        trained = train_model(documents, parts, run, callbacks=[ear])
        classes = np.array(trained.model.classes)
        answers = classes[trained.probabilities(documents, parts.dev).argmax(axis=1)]
        score = selection_score(metric, documents.labels[parts.dev].astype(str), answers, documents.domains[parts.dev])
        assert any(told == pytest.approx(score) for _, told in ear.told), metric
        reached[metric] = tuple(told for _, told in ear.told)
    assert len(set(reached.values())) == 3


def test_a_record_without_metric_and_class_weights_is_of_their_defaults():
    run = settings()
    assert RunSettings.from_record(before_objectives(run)).complete() == run.complete()
    other = settings(objective={"metric": "worst-domain", "class_weight": "balanced"})
    assert RunSettings.from_record(other.complete()).complete() == other.complete() != run.complete()


def test_a_checkpoint_of_the_time_before_settings_were_renamed_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its fingerprint names all features, flat, and what a method reads as sequences under `words`."""
    run = settings(training={"checkpoint_seconds": 0}, features={"ngrams": {"max_features": 30}})
    words = {"max_words": 50_000, "min_count": 2, "max_length": None, "vectors": None}
    bags = {"weighting": "counts", "max_features": 30, "ngram_range": [1, 2]}
    what = {**before_objectives(run), "features": bags, "words": words, "selection": split().selection, "threads": 1}
    digest = hashlib.sha256(json.dumps(what, sort_keys=True).encode() + corpus().content_hash().encode())
    for rows in (split().train, split().dev, split().unlabelled):
        digest.update(rows.tobytes() + b"|")
    assert fingerprints(corpus(), split(), run)[1] == digest.hexdigest()
    with monkeypatch.context() as patched:
        patched.setattr("multidomain.training.train.fingerprints", lambda *_: (digest.hexdigest(), ""))
        old = train_model(corpus(), split(), run, checkpoint_path=tmp_path / "c")
    resumed = train_model(corpus(), split(), run, checkpoint_path=tmp_path / "c")
    assert resumed.history == old.history and same(resumed, old)


def test_all_settings_can_be_written_down():
    record = settings(method="sp").complete()
    assert record["method_settings"]["dropout"] == 0.4
    assert record["method_settings"]["hidden"] == [6]
    ngrams = {"weighting": "counts", "max_features": 5000, "ngram_range": [1, 2], "min_df": 1}
    assert record["features"] == {"ngrams": ngrams}
    assert record["training"]["patience"] == 5


def test_faults_of_all_parts_come_at_once():
    with pytest.raises(ConfigError) as caught:
        values = {"features": {"ngrams": {"max_features": 0}}, "training": {"seed": -1}, "metod": "sp"}
        RunSettings.parse(values, "run")
    for fault in (
        r"'features': invalid settings of featurizer 'ngrams':\n  - 'max_features': .*greater than or equal to 1",
        r"'training\.seed'",
        r"'metod' is not a setting\. Did you mean 'method'",
    ):
        assert caught.match(fault)


def test_devices():
    assert resolved_device("cpu") == "cpu"
    if not torch.cuda.is_available():
        assert resolved_device("auto") == "cpu"
        with pytest.raises(
            ConfigError, match=r"Device 'cuda' was asked for and there is none\. Use device='cpu' or device='auto'\."
        ):
            resolved_device("cuda")


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.mark.usefixtures("two_gpus")
def test_one_of_several_devices():
    network, linear = RunSettings(method="sp"), RunSettings(method="lr")
    assert resolved_device("auto", network) == "cuda" and resolved_device("auto", linear) == "cpu"
    assert resolved_device("cuda:1", network) == "cuda:1"
    assert suited_device(network, "cuda:1") == "cuda:1" and suited_device(linear, "cuda:1") == "auto"
    with pytest.raises(ConfigError, match=r"'cuda:3' was asked for, and there are 2 CUDA devices: cuda:0 to cuda:1\."):
        resolved_device("cuda:3", network)
    with pytest.raises(ConfigError, match="'lr' with these settings runs on cpu only"):
        resolved_device("cuda:1", linear)


def test_a_run_may_go_on_another_device_of_the_kind():
    corpus = load_corpus("demo")
    split, settings = holdout_split(corpus), RunSettings(method="sp")
    of = [fingerprints(corpus, split, settings, device) for device in ("cpu", "cuda", "cuda:1", "mps")]
    assert of[1] == of[2] and len({*of}) == 3


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="the device is there")
def test_no_metal():
    with pytest.raises(ConfigError, match="Device 'mps' was asked for and there is none"):
        resolved_device("mps", RunSettings(method="man-nll", method_settings={"extractor": "cnn"}))
