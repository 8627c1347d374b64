"""What every registered method must do, on every kind of small corpus. A new method is taken up by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from multidomain.data.corpus import Corpus
from multidomain.data.splits import Split
from multidomain.data.values import corpus_from_rows
from multidomain.errors import ConfigError, DataError, MultidomainWarning, TrainingError
from multidomain.methods.history import History
from multidomain.methods.registry import METHODS
from multidomain.model.model import Model
from multidomain.training.callbacks import Callback
from multidomain.training.settings import RunSettings
from multidomain.training.train import Trained, train_model

# Settings that make a method small; those it does not have are left out. Then its variants.
SMALL = {"hidden": [8], "shared_size": 6, "private_size": 4, "lr": 0.02, "k": 2, "dropout": 0.1, "layers": 2}
SMALL |= {"state": 6, "filters": 6, "dimension": 8, "kernel_sizes": (1, 3)}
SMALL_NETWORK = {name: SMALL[name] for name in ("hidden", "shared_size", "private_size", "lr", "dropout")}
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "man-nll": [{}, {"category": "shared"}, {"norm": "per-domain"}, {"extractor": "cnn"}],
    "man-l2": [{}],
    "mlp": [{"category": "shared"}, {"category": "domain-specific"}],
    "mdan-smax": [{}, {"extractor": "cnn"}],
    "cnn": [{"category": "shared"}, {"category": "domain-specific"}],
    "bilstm": [{"category": "domain-specific"}],
    "sp": [{}, {"extractor": "bilstm-attention"}],
    "asp-mtl": [{}, {"extractor": "mlp"}],
    "fs-mtl": [{"state": 16}],
    **{name: [{"category": "shared"}, {"category": "domain-specific"}] for name in ("ls", "svm", "lr")},
    "self-training": [
        {"base": "fa-lr"},
        {"base": "ls"},
        {"base": "cmsc-svm", "base_settings": {"ridge": 0.01}},
        {"base": "msda"},
    ],
    "ensemble": [{"members": ["fa-lr", {"method": "sp", "settings": SMALL_NETWORK}]}],
}
CASES = [(name, variant) for name in METHODS for variant in VARIANTS.get(name, [{}])]
CASE_IDS = [" ".join([name, *map(str, variant.values())]) for name, variant in CASES]
every_method = pytest.mark.parametrize(("name", "variant"), CASES, ids=CASE_IDS)
stepped = [case for case in CASES if METHODS[case[0]].requirements().in_epochs]
every_method_with_steps = pytest.mark.parametrize(("name", "variant"), stepped)

EPOCHS = 10
WORDS = {"x": "fine splendid superb", "y": "awful dreadful poor", "z": "plain usual middling"}


def make_corpus(domains: tuple[str, ...], classes: str = "xy", vectors: bool = False, each: int = 18) -> Corpus:
    """`each` documents of each domain and class; all words of the class stand in each, so that none can be mistaken."""
    random = np.random.default_rng(0)
    rows = []
    for domain in domains:
        for i in range(each * len(classes)):
            label = classes[i % len(classes)]
            words = [*WORDS[label].split(), domain, f"{domain}{random.integers(4)}", f"no{i}"]
            rows.append((" ".join(random.permutation(words)), label, domain))
    texts, labels, names = (list(column) for column in zip(*rows, strict=True))
    if not vectors:
        return corpus_from_rows(texts, labels, names)
    columns = {word: i for i, word in enumerate(sorted({w for text in texts for w in text.split()}))}
    matrix = np.zeros((len(texts), len(columns)), dtype=np.float32)
    for i, text in enumerate(texts):
        for word in text.split():
            matrix[i, columns[word]] += 1
    return corpus_from_rows(csr_matrix(matrix), labels, names)


def make_split(corpus: Corpus) -> Split:
    """Of each 6 documents 3 train, 2 are dev and 1 is test, so all have all domains and classes.

    With fewer development rows an epoch that has learnt little gets them all right by chance, and is taken.
    """
    part = np.arange(len(corpus)) // len(corpus.class_names) % 6
    return Split(
        train=np.flatnonzero(part < 3),
        dev=np.flatnonzero((part == 3) | (part == 4)),
        test=np.flatnonzero(part == 5),
        unlabelled=np.empty(0, dtype=int),
        rule="by hand",
    )


CORPORA: dict[str, tuple[Corpus, tuple[str, ...]]] = {  # and the domains whose labels are hidden
    "two domains": (make_corpus(("books", "pans")), ()),
    "three classes": (make_corpus(("books", "pans", "shoes"), "xyz"), ()),
    "one unlabelled": (make_corpus(("books", "pans", "shoes")), ("pans",)),
    "one domain": (make_corpus(("books",), each=30), ()),
    "vectors": (make_corpus(("books", "pans"), vectors=True), ()),
}
every_corpus = pytest.mark.parametrize("kind", CORPORA)


def settings(name: str, variant: Mapping[str, Any], **training: Any) -> RunSettings:
    entry = METHODS[name]
    usable = set(entry.method.settings_type.model_fields) - set(entry.fixed) - set(entry.unused)
    extractor = {**entry.defaults, **entry.fixed, **variant}.get("extractor", "mlp")
    idle = {"mlp": {"filters", "dimension", "kernel_sizes", "state"}, "cnn": {"hidden", "state"}}
    usable -= idle.get(extractor, {"hidden", "filters", "kernel_sizes"})
    small = {key: value for key, value in SMALL.items() if key in usable}
    return RunSettings(
        method=name,
        method_settings={**small, **variant},
        features={"sequences": {"vectors": "random"}},
        training={"max_epochs": 3, "batch_size": 4, "seed": 1, **training},
    )


def data(kind: str) -> tuple[Corpus, Split]:
    corpus, hidden = CORPORA[kind]
    split = make_split(corpus)
    return corpus, split.hide_labels(corpus, hidden) if hidden else split


def train(name: str, variant: Mapping[str, Any], kind: str, **options: Any) -> Trained:
    training = options.pop("training", {})
    return train_model(*data(kind), settings(name, variant, **training), **options)


_examples: dict[str, Trained] = {}


def example(name: str, variant: Mapping[str, Any]) -> Trained:
    """A trained method for the tests that only look at one: trained once for all of them."""
    key = f"{name} {variant}"
    if key not in _examples:
        _examples[key] = train(name, variant, possible(name))
    return _examples[key]


def refusal(name: str, variant: Mapping[str, Any], kind: str) -> str | None:
    """What the error must say where a method cannot do a thing."""
    if domain_specific(variant) and kind == "one unlabelled":
        return "from its own labels, and 'pans' has none"
    if reads_words(name, variant) and kind == "vectors":
        return "reads token sequences, and the documents are vectors"
    if name == "self-training" and kind != "one unlabelled":
        return "learns from unlabelled text, and there is none"
    return None


def reads_words(name: str, variant: Mapping[str, Any]) -> bool:
    entry = METHODS[name]
    return entry.requirements(entry.settings(variant)).featurizer == "sequences"


def possible(name: str) -> str:
    """A corpus that the method can be trained on."""
    return "one unlabelled" if name == "self-training" else "two domains"


def domain_specific(variant: Mapping[str, Any]) -> bool:
    return variant.get("category") == "domain-specific"


@every_corpus
@every_method
def test_fit_predict_save_load(name: str, variant: dict[str, Any], kind: str, tmp_path: Path):
    if message := refusal(name, variant, kind):
        with pytest.raises(ConfigError, match=message):
            train(name, variant, kind)
        return
    trained = train(name, variant, kind, training={"max_epochs": EPOCHS, "patience": EPOCHS})
    corpus, split = data(kind)
    model, test = trained.model, split.test
    documents, domains = corpus.documents[test], list(corpus.domains[test])

    p = model.predict_proba(documents, domains)
    assert p.shape == (len(test), len(corpus.class_names))
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    assert model.classes == corpus.class_names
    predicted = model.predict(documents, domains)
    assert set(predicted) <= set(corpus.class_names)
    # The class stands in the text: what is not learnt in so many epochs is not learnt for a reason.
    chance = 1 / len(corpus.class_names)
    assert name == "majority" or (predicted == corpus.labels[test]).mean() > chance + 0.2
    np.testing.assert_allclose(model.predict_proba(documents[::-1], domains[::-1])[::-1], p, rtol=1e-4, atol=1e-6)

    history = trained.history
    if history.chosen or not model.requirements.in_epochs:
        assert history.epochs == []
    else:
        assert history.chosen == {}
        check_epochs(history)

    model.save(tmp_path)
    loaded = Model.load(tmp_path)
    assert_same_weights(model, loaded)
    # What is read from a file stands elsewhere in memory, and a sum may then begin elsewhere.
    np.testing.assert_allclose(loaded.predict_proba(documents, domains), p, rtol=1e-5, atol=1e-7)
    assert (loaded.domains, loaded.labelled_domains) == (model.domains, model.labelled_domains)
    features = model.shared_features(model.encode(documents))
    if features is None:
        assert loaded.shared_features(loaded.encode(documents)) is None
    else:
        assert len(features) == len(test) and np.isfinite(features).all()
        np.testing.assert_allclose(loaded.shared_features(loaded.encode(documents)), features, rtol=1e-5, atol=1e-6)


def assert_same_weights(model: Model, other: Model) -> None:
    a, b = model.method.weights(), other.method.weights()
    assert a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a)


def check_epochs(history: History) -> None:
    assert 1 <= history.best_epoch <= len(history.epochs) <= EPOCHS
    assert all(np.isfinite(list(epoch.log.values())).all() for epoch in history.epochs)
    assert history.epochs[history.best_epoch - 1].dev_accuracy == max(e.dev_accuracy for e in history.epochs)


@every_method
def test_views_of_the_shared_and_the_private_part(name: str, variant: dict[str, Any]):
    model = example(name, variant).model
    corpus, _ = data(possible(name))
    rows = model.features.transform(corpus.documents)
    a, b = rows[:6], rows[6:12]
    both, alone = [], []
    for d in (*model.method.task.labelled, *([] if domain_specific(variant) else [None])):
        answer = model.method.logits(a, d)
        assert answer.shape == (6, model.method.task.n_classes)
        np.testing.assert_allclose(model.method.logits_of_views(a, a, d), answer, rtol=1.3e-6, atol=1e-5)
        both.append(answer)
        alone.append(model.method.logits_of_views(a, b, d))
    differ = [not np.allclose(x, y) for x, y in zip(both, alone, strict=True)]
    assert domain_specific(variant) or not differ[-1], "a domain that was not in training has no private part"
    assert len(set(differ[: len(model.method.task.labelled)])) == 1, "every labelled domain has a private part, or none"


@every_method
def test_a_seed_makes_a_run_repeatable(name: str, variant: dict[str, Any]):
    assert_same_weights(example(name, variant).model, train(name, variant, possible(name)).model)


@every_method
def test_weights_that_are_not_finite_are_not_saved(name: str, variant: dict[str, Any], tmp_path: Path):
    """Whatever holds them; an old model in the folder stays as it was."""
    model = example(name, variant).model
    model.save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    weights = model.method.weights()
    for key in [key for key, value in weights.items() if value.dtype.kind == "f" and value.size]:
        place = (0,) * weights[key].ndim
        first = weights[key][place]
        weights[key][place] = np.nan
        with pytest.raises(TrainingError, match=rf"'{name}' has diverged: weight 'method/{key}' is not finite"):
            model.save(tmp_path)
        weights[key][place] = first
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@every_method_with_steps
def test_clipping_beyond_every_norm_changes_nothing(name: str, variant: dict[str, Any]):
    free, loose, tight = (
        train(name, variant, possible(name), training={} if clip is None else {"clip_norm": clip}).model.method
        for clip in (None, 1e9, 1e-4)
    )
    assert all(np.array_equal(loose.weights()[key], value) for key, value in free.weights().items())
    assert any(not np.array_equal(tight.weights()[key], value) for key, value in free.weights().items())


class Interrupted(Exception):
    pass


class Interrupt(Callback):
    def __init__(self, epoch: int, iteration: int):
        self.at = (epoch, iteration)

    def on_step_end(self, epoch: int, iteration: int, log: Mapping[str, float]) -> None:
        if (epoch, iteration) == self.at:
            raise Interrupted


@pytest.mark.parametrize("kind", ["one unlabelled", "one domain"])
@every_method_with_steps
def test_an_interrupted_run_goes_on_to_the_same_end(name: str, variant: dict[str, Any], kind: str, tmp_path: Path):
    if refusal(name, variant, kind):
        pytest.skip("a domain-specific model needs labels in every domain")
    path = tmp_path / "checkpoint"
    every_step = {"checkpoint_seconds": 0}
    with pytest.raises(Interrupted):
        train(name, variant, kind, training=every_step, checkpoint_path=path, callbacks=[Interrupt(2, 3)])
    resumed = train(name, variant, kind, training=every_step, checkpoint_path=path)
    whole = train(name, variant, kind)
    assert_same_weights(resumed.model, whole.model)
    pairs = zip(resumed.history.epochs, whole.history.epochs, strict=True)
    assert all({**asdict(r), "seconds": 0} == {**asdict(w), "seconds": 0} for r, w in pairs)


@every_method
def test_unseen_domains(name: str, variant: dict[str, Any]):
    model = example(name, variant).model
    texts = ["splendid book", "awful pan"]
    if domain_specific(variant):
        for domains in (None, [None, None]):
            with pytest.raises(DataError, match="knows nothing about a domain that was not in its training data"):
                model.predict(texts, domains)
        with pytest.raises(DataError, match="knows nothing"), pytest.warns(MultidomainWarning, match="'toys'"):
            model.predict(texts, ["toys", "toys"])
        return
    without = model.predict_proba(texts)
    np.testing.assert_array_equal(model.predict_proba(texts, [None, None]), without)
    with pytest.warns(MultidomainWarning, match="Domain 'toys' was not in training"):
        p = model.predict_proba(texts, ["toys", "toys"])
    np.testing.assert_array_equal(p, without)
    with pytest.raises(DataError, match="Domain 'toys' was not in training"):
        model.predict(texts, ["toys", "books"], unknown_domain="error")


@every_method
def test_settings_are_written_down_and_read_again(name: str, variant: dict[str, Any]):
    run = settings(name, variant)
    record = run.complete()["method_settings"]
    entry = METHODS[name]
    given = {key: value for key, value in record.items() if key not in entry.fixed and key not in entry.unused}
    assert entry.settings(given) == entry.settings(run.method_settings)


@pytest.mark.parametrize("name", METHODS)
def test_entries_say_what_they_are(name: str):
    entry = METHODS[name]
    assert entry.summary and entry.paper
    fields = set(entry.method.settings_type.model_fields)
    assert {*entry.fixed, *entry.defaults, *entry.unused} <= fields
    for part in ("Paper", "Symbols", "Departures"):
        assert f"{part}\n    -" in (entry.method.__doc__ or ""), f"the docstring has no section {part}"
