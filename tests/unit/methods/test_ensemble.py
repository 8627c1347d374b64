"""Several models as one: the mean of their probabilities, whatever they read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.special import log_softmax

from multidomain.data.corpus import Corpus
from multidomain.data.settings import SplitSettings
from multidomain.data.splits import Split, split_by
from multidomain.data.values import corpus_from_rows
from multidomain.errors import ConfigError, Note
from multidomain.methods.ensemble import EnsembleSettings, columns_of, stacking_weights
from multidomain.methods.history import Epoch
from multidomain.model.joining import join_models
from multidomain.model.model import Model
from multidomain.runs.run import run_in_folder
from multidomain.training.callbacks import Callback
from multidomain.training.settings import RunSettings
from multidomain.training.train import train_model

Run = Callable[..., tuple[int, str, str]]

SMALL = {"hidden": (8,), "shared_size": 6, "private_size": 4}
MEMBERS = {
    "tf-idf": RunSettings(method="fa-lr"),
    "counts": RunSettings(method="man-nll", method_settings=SMALL, training={"max_epochs": 2}),
    "words": RunSettings(
        method="cnn",
        method_settings={"category": "shared", "filters": 4, "dimension": 8},
        features={"sequences": {"vectors": "random"}},
        training={"max_epochs": 1},
    ),
}


def make_corpus(domains: tuple[str, ...] = ("books", "pans"), classes: str = "xy") -> Corpus:
    random = np.random.default_rng(0)
    rows = []
    for i in range(60 * len(domains)):
        label, domain = classes[i % len(classes)], domains[i // len(classes) % len(domains)]
        words = [f"{label}{random.integers(3)}", f"{domain}{random.integers(5)}", f"no{i}", "and", "so", "on"]
        rows.append((" ".join(random.permutation(words)), label, domain))
    return corpus_from_rows(*(list(column) for column in zip(*rows, strict=True)))


CORPUS = make_corpus()
SPLIT = split_by(CORPUS, SplitSettings())
TEXTS, DOMAINS = list(CORPUS.documents[SPLIT.test]), list(CORPUS.domains[SPLIT.test])


@pytest.fixture(scope="module")
def members() -> dict[str, Model]:
    return {name: train_model(CORPUS, SPLIT, settings).model for name, settings in MEMBERS.items()}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs")
    for name, settings in MEMBERS.items():
        run_in_folder(place / name, CORPUS, SPLIT, SplitSettings(), settings)
    return place


@pytest.fixture
def saved(tmp_path: Path, runs: Path) -> list[Path]:
    """Folders of a test's own, which it may change."""
    return [shutil.copytree(runs / name, tmp_path / name) for name in MEMBERS]


def join_saved(
    folders: list[Path],
    output: Path,
    split: SplitSettings | None = None,
    corpus: Corpus = CORPUS,
    callbacks: Sequence[Callback] = (),
    combine: str = "probabilities",
) -> Model:
    split = split or SplitSettings()
    own = {"members": [str(folder) for folder in folders], "combine": combine}
    settings = RunSettings(method="ensemble", method_settings=own)
    run_in_folder(output, corpus, split_by(corpus, split), split, settings, callbacks=callbacks)
    return Model.load(output)


def test_the_mean_of_members_that_read_different_things(members: dict[str, Model], tmp_path: Path):
    joined = join_models("ensemble", list(members.values()))
    expected = np.mean([model.predict_proba(TEXTS, DOMAINS) for model in members.values()], axis=0)
    np.testing.assert_allclose(joined.predict_proba(TEXTS, DOMAINS), expected, rtol=1e-5)
    joined.save(tmp_path)
    np.testing.assert_allclose(Model.load(tmp_path).predict_proba(TEXTS, DOMAINS), expected, rtol=1e-5)


def test_an_ensemble_is_a_member_like_others(members: dict[str, Model]):
    tfidf, counts, words = (model.predict_proba(TEXTS, DOMAINS) for model in members.values())
    inner = join_models("ensemble", [members["tf-idf"], members["words"]])
    outer = join_models("ensemble", [inner, members["counts"]])
    np.testing.assert_allclose(
        outer.predict_proba(TEXTS, DOMAINS), (tfidf + words) / 4 + counts / 2, rtol=1e-5, atol=1e-7
    )


def test_equal_features_are_kept_once(members: dict[str, Model]):
    a, b = members["counts"], members["tf-idf"]
    assert join_models("ensemble", [a, b, a]).features.n_inputs == a.features.n_inputs + b.features.n_inputs


def test_shared_features_stand_side_by_side(members: dict[str, Model]):
    networks = [members["counts"], members["words"]]
    expected = np.concatenate([model.shared_features(model.encode(TEXTS)) for model in networks], axis=1)
    joined = join_models("ensemble", networks)
    assert joined.requirements.shared_features
    np.testing.assert_array_equal(joined.shared_features(joined.encode(TEXTS)), expected)
    with_a_linear_one = join_models("ensemble", list(members.values()))
    assert not with_a_linear_one.requirements.shared_features
    assert with_a_linear_one.shared_features(with_a_linear_one.encode(TEXTS)) is None


def test_members_may_know_different_domains(members: dict[str, Model]):
    toys = make_corpus(("pans", "toys"))
    other = train_model(toys, split_by(toys, SplitSettings()), MEMBERS["tf-idf"]).model
    joined = join_models("ensemble", [members["tf-idf"], other])
    assert joined.domains == joined.labelled_domains == ("books", "pans", "toys")
    expected = (members["tf-idf"].predict_proba(["x0"], ["books"]) + other.predict_proba(["x0"])) / 2
    np.testing.assert_allclose(joined.predict_proba(["x0"], ["books"]), expected, rtol=1e-5)


def test_saved_models_are_joined_and_no_longer_needed(saved: list[Path], members: dict[str, Model], tmp_path: Path):
    join_saved(saved, tmp_path / "joined")
    for folder in saved:
        shutil.rmtree(folder)
    moved = shutil.move(tmp_path / "joined", tmp_path / "elsewhere")
    expected = np.mean([model.predict_proba(TEXTS, DOMAINS) for model in members.values()], axis=0)
    np.testing.assert_allclose(Model.load(moved).predict_proba(TEXTS, DOMAINS), expected, rtol=1e-5)
    assert str(tmp_path) not in (Path(moved) / "model.json").read_text(encoding="utf-8")


def test_members_that_have_learnt_from_the_test_rows_are_refused(saved: list[Path], tmp_path: Path):
    with pytest.raises(ConfigError, match=r"tf-idf has seen \d+ texts of this split's test set.*seed=\.\.\."):
        join_saved(saved, tmp_path / "joined", SplitSettings(seed=1))
    assert not (tmp_path / "joined").exists()


def test_what_members_have_seen_is_known_of_the_whole(saved: list[Path], tmp_path: Path, run: Run):
    join_saved(saved, tmp_path / "joined", corpus=make_corpus(("pans", "books")))
    columns = zip(CORPUS.documents, CORPUS.labels, CORPUS.domains, strict=True)
    path = tmp_path / "rows.jsonl"
    lines = [json.dumps({"text": text, "label": label, "domain": domain}) for text, label, domain in columns]
    path.write_text("\n".join(lines), encoding="utf-8")
    code, _, notes = run("evaluate", tmp_path / "joined", path)
    assert code == 0
    assert f"{len(CORPUS) - len(SPLIT.test)} rows dropped" in notes


def test_classes_must_be_the_same(members: dict[str, Model]):
    three = make_corpus(classes="xyz")
    other = train_model(three, split_by(three, SplitSettings()), MEMBERS["tf-idf"]).model
    with pytest.raises(ConfigError, match="different classes cannot be joined: 'x', 'y' and 'x', 'y', 'z'"):
        join_models("ensemble", [members["tf-idf"], other])


@pytest.mark.parametrize("combine", ["probabilities", "logits"])
def test_labels_that_no_saved_member_knows_are_refused(combine: str, runs: Path):
    other = make_corpus(classes="xz")
    own = {"members": [str(runs / "tf-idf"), str(runs / "counts")], "combine": combine}
    settings = RunSettings(method="ensemble", method_settings=own)
    with pytest.raises(ConfigError, match="The members know the classes 'x', 'y', and the data has 'z'"):
        train_model(other, split_by(other, SplitSettings()), settings)


def test_classes_that_the_data_lacks_keep_their_places(tmp_path: Path):
    """Saved members know x, y and z, of which the dev set has y and z: weights are those for these labels."""
    three, two = make_corpus(classes="xyz"), make_corpus(classes="yz")
    names = [tmp_path / "tf-idf", tmp_path / "lr"]
    for name, settings in zip(names, (MEMBERS["tf-idf"], RunSettings(method="lr")), strict=True):
        train_model(three, split_by(three, SplitSettings()), settings).model.save(name)
    model = join_saved(names, tmp_path / "joined", corpus=two, combine="logits")
    dev = split_by(two, SplitSettings()).dev
    texts, domains, y = list(two.documents[dev]), list(two.domains[dev]), np.array([*map("xyz".index, two.labels[dev])])
    answers = np.array([np.log(Model.load(name).predict_proba(texts, domains)) for name in names])
    expected = stacking_weights(answers - answers.mean(axis=2, keepdims=True), y)
    np.testing.assert_allclose(model.method.member_weight, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("man-nll", "at least 2 items"),
        ("man-nll,fa-lx", "neither a method nor the folder of a model. Did you mean 'fa-lr'"),
        ([{"method": "fa-lr", "settings": {"C": 0}}, "man-nll"], "'C'"),
        ([{"method": "fa-lr", "folder": "x"}, "man-nll"], "one of the two"),
    ],
)
def test_members_that_cannot_be(given: object, message: str):
    with pytest.raises(ConfigError, match=message):
        RunSettings(method="ensemble", method_settings={"members": given}).complete()


def test_a_leak_inside_an_inner_ensemble_is_found(saved: list[Path], tmp_path: Path):
    inner = {"method": "ensemble", "settings": {"members": [str(saved[0]), "lr"]}}
    settings = RunSettings(method="ensemble", method_settings={"members": ["lr", inner]})
    other = SplitSettings(seed=1)
    with pytest.raises(ConfigError, match="has seen"):
        run_in_folder(tmp_path / "joined", CORPUS, split_by(CORPUS, other), other, settings)


class Notes(Callback):
    """Keeps the notes of a run."""

    def __init__(self) -> None:
        self.notes: list[Note] = []

    def on_note(self, note: Note) -> None:
        self.notes.append(note)


def test_a_member_whose_training_is_not_known_is_told(members: dict[str, Model], tmp_path: Path):
    for name in ("tf-idf", "counts"):
        members[name].save(tmp_path / name)
    notes = Notes()
    join_saved([tmp_path / "tf-idf", tmp_path / "counts"], tmp_path / "joined", callbacks=[notes])
    assert [note.kind for note in notes.notes] == ["unknown-training-data"] * 2
    for note, name in zip(notes.notes, ("tf-idf", "counts"), strict=True):
        assert str(tmp_path / name) in note.message and "cannot be checked" in note.message


def test_members_that_were_trained_on_the_dev_rows_are_told_where_they_are_weighed(saved: list[Path], tmp_path: Path):
    """The test rows are the same, and train and dev have changed places in part."""
    other = holdout_with_other_dev_rows()
    for combine, kinds in (("logits", ["trained-on-dev"] * 2), ("probabilities", [])):
        notes, own = Notes(), {"members": [str(folder) for folder in saved[:2]], "combine": combine}
        settings = RunSettings(method="ensemble", method_settings=own)
        run_in_folder(tmp_path / combine, CORPUS, other, SplitSettings(), settings, callbacks=[notes])
        assert [note.kind for note in notes.notes] == kinds
    notes = Notes()
    join_saved(saved[:2], tmp_path / "same", combine="logits", callbacks=[notes])
    assert not notes.notes
    inner = {"method": "ensemble", "settings": {"members": [str(saved[0]), "lr"], "combine": "logits"}}
    settings = RunSettings(method="ensemble", method_settings={"members": ["lr", inner]})
    run_in_folder(tmp_path / "inner", CORPUS, other, SplitSettings(), settings, callbacks=[notes])
    (note,) = notes.notes
    n = len(SPLIT.dev)
    assert f"tf-idf was trained on {n} texts of the {n} of the dev set" in str(note)


def test_of_other_data_it_is_told_what_a_member_has_seen(saved: list[Path], tmp_path: Path):
    """The corpus in another order: which of its rows were dev rows of the member is not known."""
    notes = Notes()
    rows = np.concatenate([SPLIT.train, SPLIT.dev])
    columns = (list(values[rows]) for values in (CORPUS.documents, CORPUS.labels, CORPUS.domains))
    some = corpus_from_rows(*columns)
    split = Split(np.arange(20), np.arange(len(SPLIT.train), len(rows)), rows[:0], rows[:0], rule="by hand")
    settings = {"members": [str(folder) for folder in saved[:2]], "combine": "logits"}
    run = RunSettings(method="ensemble", method_settings=settings)
    run_in_folder(tmp_path / "joined", some, split, SplitSettings(), run, callbacks=[notes])
    assert [note.kind for note in notes.notes if "has seen" in str(note)] == ["trained-on-dev"] * 2


def holdout_with_other_dev_rows() -> Split:
    """The split with as many training rows in place of the dev rows, and these in training."""
    n = len(SPLIT.dev)
    return replace(SPLIT, train=np.concatenate([SPLIT.train[n:], SPLIT.dev]), dev=SPLIT.train[:n])


def test_an_ensemble_does_not_replace_its_own_member(saved: list[Path]):
    settings = RunSettings(method="ensemble", method_settings={"members": [str(folder) for folder in saved]})
    with pytest.raises(ConfigError, match="is a member of the ensemble"):
        run_in_folder(saved[0], CORPUS, SPLIT, SplitSettings(), settings, overwrite=True)


class Stop(Callback):
    """Ends the second network in its second epoch."""

    networks = 0

    def on_train_begin(self, max_epochs: int, iterations: int, past: list[Epoch]) -> None:
        self.networks += 1

    def on_epoch_end(self, epoch: Epoch, is_best: bool) -> None:
        if (self.networks, epoch.epoch) == (2, 2):
            raise KeyboardInterrupt


def ensemble(lam: float) -> RunSettings:
    members = [{"method": name, "settings": {**SMALL, "lam": lam}} for name in ("man-nll", "man-l2")]
    training = {"max_epochs": 3, "checkpoint_seconds": 0}
    return RunSettings(method="ensemble", method_settings={"members": members}, training=training)


def test_an_ensemble_that_was_stopped_goes_on_or_is_replaced(tmp_path: Path):
    def run(name: str, lam: float = 0.1, **options: object) -> np.ndarray:
        run_in_folder(tmp_path / name, CORPUS, SPLIT, SplitSettings(), ensemble(lam), **options)
        return Model.load(tmp_path / name).predict_proba(TEXTS, DOMAINS)

    with pytest.raises(KeyboardInterrupt):
        run("stopped", callbacks=[Stop()])
    with pytest.raises(ConfigError, match="holds a run already"):
        run("stopped")
    shutil.copytree(tmp_path / "stopped", tmp_path / "replaced")
    np.testing.assert_array_equal(run("stopped", resume=True), run("whole"))
    assert len((tmp_path / "stopped" / "log.jsonl").read_text().splitlines()) == 6
    np.testing.assert_array_equal(run("replaced", lam=0.5, overwrite=True), run("whole too", lam=0.5))
    assert not list(tmp_path.glob("*/checkpoint*"))


def test_columns_keep_the_order_of_values():
    """Of token sequences it is the order of the text, in which a column may occur twice."""
    indices = [9, 4, 2, 4, 7, 5, 0, 6, 4]
    x = csr_matrix((np.arange(1.0, 10), indices, [0, 5, 5, 6, 9]), shape=(4, 10))
    found = columns_of(x, 2, 7)
    assert found.shape == (4, 5)
    assert found.indices.tolist() == [2, 0, 2, 3, 4, 2]
    assert found.data.tolist() == [2, 3, 4, 6, 8, 9]
    assert found.indptr.tolist() == [0, 3, 3, 4, 6]
    np.testing.assert_array_equal(found.toarray(), x.toarray()[:, 2:7])
    assert x.indices.tolist() == indices, "the given rows are left alone"


@pytest.mark.parametrize(("start", "stop"), [(0, 6), (0, 2), (2, 6), (3, 3)])
def test_columns_are_those_of_the_range(start: int, stop: int):
    random = np.random.default_rng(0)
    dense = (random.random((20, 6)) * (random.random((20, 6)) < 0.5)).astype(np.float32)
    found = columns_of(csr_matrix(dense), start, stop)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.toarray(), dense[:, start:stop])
    np.testing.assert_array_equal(columns_of(csr_matrix(dense)[:0], start, stop).toarray(), dense[:0, start:stop])


def test_weights_of_members_stand_under_their_numbers(members: dict[str, Model]):
    joined = join_models("ensemble", list(members.values())).method
    expected = {
        f"members.{i}.{name}": array
        for i, model in enumerate(members.values())
        for name, array in model.method.weights().items()
    }
    found = joined.weights()
    assert found.keys() == {*expected, "inverse_temperature", "class_bias"}
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
    with pytest.raises(ValueError, match="'bias' is missing"):
        joined.load_weights({name: array for name, array in found.items() if name != "members.0.bias"})


# Log-odds


def by_log_odds(models: Sequence[Model]) -> Model:
    return join_models("ensemble", models, EnsembleSettings(combine="logits"))


def test_log_odds_are_summed(members: dict[str, Model], tmp_path: Path):
    """Without a dev set all weights are 1: the product of the probabilities, normalised."""
    joined = by_log_odds(list(members.values()))
    product = np.prod([model.predict_proba(TEXTS, DOMAINS).astype(float) for model in members.values()], axis=0)
    expected = product / product.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(joined.predict_proba(TEXTS, DOMAINS), expected, rtol=1e-3)
    joined.method.member_weight = np.array([0.5, 0.0, 2.0], dtype=np.float32)
    joined.save(tmp_path)
    again = Model.load(tmp_path)
    assert again.method.member_weight.tolist() == [0.5, 0.0, 2.0]
    np.testing.assert_array_equal(again.predict_proba(TEXTS, DOMAINS), joined.predict_proba(TEXTS, DOMAINS))


def test_weights_of_members_are_those_of_the_likeliest_dev_labels():
    random = np.random.default_rng(1)
    y = random.integers(3, size=400)
    informative = 2.0 * np.eye(3)[y] + random.normal(size=(400, 3))
    log_odds = np.stack([informative, random.normal(size=(400, 3)), -informative])
    weights = stacking_weights(log_odds, y)

    def loss(some: np.ndarray) -> float:
        logits = np.tensordot(some, log_odds, axes=1)
        return -(log_softmax(logits, axis=1)[np.arange(400), y]).sum() + 10 * ((some - 1) ** 2).sum()

    assert weights[0] > 1.0 > weights[1] > weights[2]
    assert stacking_weights(log_odds[:, :0], y[:0]) == pytest.approx(np.ones(3))
    nearby = [weights + step * np.eye(3)[i] for i in range(3) for step in (-0.02, 0.02)]
    assert all(loss(weights) <= loss(some) for some in nearby if (some >= 0).all())


def test_weights_are_fitted_on_the_dev_set_and_told():
    members = [{"method": "fa-lr"}, {"method": "majority"}]
    settings = RunSettings(method="ensemble", method_settings={"members": members, "combine": "logits"})
    trained = train_model(CORPUS, SPLIT, settings)
    weights = trained.model.method.member_weight
    assert trained.history.chosen["weight of 1 fa-lr"] == pytest.approx(weights[0], abs=1e-3)
    assert weights[0] > 0.5 and (weights >= 0).all()
    y = CORPUS.labels[SPLIT.dev]
    codes = np.array([trained.model.classes.index(name) for name in y])
    alone = train_model(CORPUS, SPLIT, RunSettings(method="fa-lr")).model
    rows, domains = list(CORPUS.documents[SPLIT.dev]), list(CORPUS.domains[SPLIT.dev])
    both, one = (m.predict_proba(rows, domains)[np.arange(len(y)), codes] for m in (trained.model, alone))
    assert np.log(both).sum() >= np.log(one).sum() - 0.5
