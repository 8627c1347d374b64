"""Method `auto`: what is compared, what is chosen and why, and how the command line keeps it."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import pytest
import torch

from multidomain.cli import main as cli
from multidomain.data.corpus import Corpus
from multidomain.data.named.registry import load_corpus
from multidomain.data.prior_shift import shift_hidden_priors
from multidomain.data.splits import Split, cross_validation, holdout_split
from multidomain.errors import ConfigError, TrainingError
from multidomain.methods.history import Epoch
from multidomain.methods.registry import METHODS, RECOMMENDED, method_entry, register
from multidomain.runs import auto as choosing
from multidomain.runs import folds as folds_of_methods
from multidomain.runs import train as running
from multidomain.runs.auto import choose_method, chosen_settings, is_choice_for
from multidomain.runs.choice import AutoChoice, Candidate
from multidomain.runs.config import AutoSettings, TrainConfig, merged, template
from multidomain.runs.folder import RunFolder
from multidomain.training.callbacks import Callback
from multidomain.training.settings import ObjectiveSettings, RunSettings
from multidomain.training.train import train_model

Run = Callable[..., tuple[int, str, str]]

DEMO = load_corpus("demo").thinned(30)
CORPUS = DEMO.select((DEMO.domains != "kitchen") | (np.arange(len(DEMO)) % 4 < 2))  # domains of different size
SPLIT = holdout_split(CORPUS)
TARGET = SPLIT.hide_labels(CORPUS, ["shoes"])
NGRAMS = {"ngrams": {"max_features": 200, "ngram_range": (1, 2)}}
SETTINGS = RunSettings(method="lr", features=NGRAMS, training={"seed": 5})
TWO = AutoSettings(methods=("lr", "fa-lr"))
GIVEN = {"data": "demo", "output": "runs/x"}
CHOICE = AutoChoice("lr", (Candidate("fa-lr", 0.8, 0.01, 2.5), Candidate("lr", 0.9, 0.02, 1.5)), "3 folds", "abc")


HIDDEN = "each domain's labels hidden in one"


def outcome(choice: AutoChoice) -> list[Any]:
    """All but the time it took and what it was for."""
    tried = [(candidate.method, candidate.accuracy, candidate.error) for candidate in choice.candidates]
    return [choice.method, choice.rule, *tried]


def folds_by_hand(corpus: Corpus, split: Split) -> list[Split]:
    return shift_hidden_priors(corpus, split, cross_validation(corpus, split, 3, seed=5), seed=5)


def counted_by_hand(corpus: Corpus, split: Split, method: str) -> tuple[float, float]:
    """Train every fold and count; a target counts like the mean of domains whose labels were hidden."""
    sources = {corpus.domains[i] for i in split.train}
    right: dict[tuple[str, bool], list[bool]] = {}
    for fold in folds_by_hand(corpus, split):
        model = train_model(corpus, fold, SETTINGS.model_copy(update={"method": method})).model
        shown = {corpus.domains[i] for i in fold.train}
        answers = model.predict(corpus.documents[fold.test], corpus.domains[fold.test])
        for i, answer in zip(fold.test, answers, strict=True):
            right.setdefault((corpus.domains[i], corpus.domains[i] in shown), []).append(answer == corpus.labels[i])
    n_hidden = sum(not was_shown for _, was_shown in right)
    targets = len(set(corpus.domains) - sources)
    weights = {key: 1 if key[1] else targets / n_hidden for key in right}
    total = sum(weights.values())
    assert total == len(set(corpus.domains))
    means = {key: sum(answers) / len(answers) for key, answers in right.items()}
    accuracy = sum(weights[key] * p for key, p in means.items()) / total
    squares = [(weights[key] / total) ** 2 * p * (1 - p) / len(right[key]) for key, p in means.items()]
    return accuracy, sum(squares) ** 0.5


@pytest.mark.parametrize("split", [SPLIT, TARGET, SPLIT.hide_labels(CORPUS, ["shoes", "kitchen"])], ids=["0", "1", "2"])
def test_accuracy_and_error_are_those_that_are_counted_by_hand(split: Split):
    choice = choose_method(CORPUS, split, SETTINGS, TWO)
    assert [candidate.method for candidate in choice.candidates] == ["lr", "fa-lr"]
    for candidate in choice.candidates:
        accuracy, error = counted_by_hand(CORPUS, split, candidate.method)
        assert candidate.accuracy == pytest.approx(accuracy)
        assert candidate.error == pytest.approx(error)
    assert choice.method == max(choice.candidates, key=lambda candidate: candidate.accuracy or 0).method


def macro_f1_by_hand(y: Sequence[str], predicted: Sequence[str]) -> float:
    scores = []
    for c in {*y, *predicted}:
        found = sum(a == b == c for a, b in zip(y, predicted, strict=True))
        scores.append(2 * found / (list(y).count(c) + list(predicted).count(c)))
    return sum(scores) / len(scores)


@pytest.mark.parametrize("split", [SPLIT, TARGET], ids=["0", "1"])
@pytest.mark.parametrize("metric", ["macro-f1", "worst-domain"])
def test_other_metrics_are_those_that_are_counted_by_hand(metric: Any, split: Split):
    settings = SETTINGS.model_copy(update={"objective": ObjectiveSettings(metric=metric)})
    sources = {CORPUS.domains[i] for i in split.train}
    choice = choose_method(CORPUS, split, settings, TWO)
    for candidate in choice.candidates:
        pairs: dict[tuple[str, bool], list[tuple[str, str]]] = {}
        for fold in folds_by_hand(CORPUS, split):
            model = train_model(CORPUS, fold, settings.model_copy(update={"method": candidate.method})).model
            shown = {CORPUS.domains[i] for i in fold.train}
            answers = model.predict(CORPUS.documents[fold.test], CORPUS.domains[fold.test])
            for i, answer in zip(fold.test, answers, strict=True):
                key = (CORPUS.domains[i], CORPUS.domains[i] in shown)
                pairs.setdefault(key, []).append((CORPUS.labels[i], answer))
        accuracies = {key: sum(a == b for a, b in both) / len(both) for key, both in pairs.items()}
        if metric == "worst-domain":
            worst = min(accuracies, key=lambda key: accuracies[key])
            p = accuracies[worst]
            assert candidate.accuracy == pytest.approx(p)
            assert candidate.error == pytest.approx((p * (1 - p) / len(pairs[worst])) ** 0.5)
            continue
        n_hidden, targets = sum(not was_shown for _, was_shown in pairs), len(set(CORPUS.domains) - sources)
        score = sum(
            macro_f1_by_hand(*zip(*both, strict=True)) * (1 if was_shown else targets / n_hidden)
            for (_, was_shown), both in pairs.items()
        )
        assert candidate.accuracy == pytest.approx(score / len(set(CORPUS.domains)))
    assert choice.method == max(choice.candidates, key=lambda candidate: candidate.accuracy or 0).method
    assert {candidate.metric for candidate in choice.candidates} == {metric}
    name = {"macro-f1": "% macro-F1 (", "worst-domain": "% accuracy in the worst domain ("}[metric]
    assert choice.reason.count(name) == 2


def test_the_error_of_macro_f1_is_that_of_resampled_rows():
    random = np.random.default_rng(0)
    y = random.choice(["a", "b", "c"], p=[0.6, 0.3, 0.1], size=400)
    predicted = np.where(random.random(400) < 0.7, y, random.choice(["a", "b", "c"], size=400))
    score, variance = choosing._score_of_domain("macro-f1", y, predicted)
    assert score == pytest.approx(macro_f1_by_hand(y, predicted))
    resampled = []
    for _ in range(500):
        rows = random.integers(0, 400, size=400)
        resampled.append(macro_f1_by_hand(y[rows].tolist(), predicted[rows].tolist()))
    assert variance**0.5 == pytest.approx(np.std(resampled), rel=0.15)


def test_a_choice_by_another_metric_is_not_taken_for_this_run():
    choice = choose_method(CORPUS, SPLIT, SETTINGS, TWO)
    other = SETTINGS.model_copy(update={"objective": ObjectiveSettings(metric="macro-f1")})
    assert is_choice_for(choice, CORPUS, SPLIT, SETTINGS, TWO)
    assert not is_choice_for(choice, CORPUS, SPLIT, other, TWO)


def test_test_rows_are_not_looked_at_and_the_same_call_chooses_the_same():
    labels, documents = CORPUS.labels.copy(), CORPUS.documents.copy()
    labels[SPLIT.test] = [None if i % 3 else "negative" for i in range(len(SPLIT.test))]
    documents[SPLIT.test] = [f"something else {i}" for i in range(len(SPLIT.test))]
    changed = replace(CORPUS, labels=labels, documents=documents)
    how = AutoSettings(methods=("fa-lr", "lr"), folds=2)
    first, again, of_changed = (choose_method(corpus, SPLIT, SETTINGS, how) for corpus in (CORPUS, CORPUS, changed))
    assert outcome(first) == outcome(again) and first.fingerprint == again.fingerprint
    assert outcome(first) == outcome(of_changed)


def test_that_folds_have_few_rows_is_no_news():
    without_dev = Split(np.concatenate([SPLIT.train, SPLIT.dev]), [], SPLIT.test, SPLIT.unlabelled, rule="by hand")
    assert choose_method(CORPUS, without_dev, SETTINGS, TWO).method in TWO.methods  # a warning would be an error here


def test_too_few_rows_are_refused_with_a_way_out():
    few = DEMO.thinned(9)
    split = holdout_split(few)
    with pytest.raises(ConfigError, match=rf"56 labelled rows .* fewer than 60 .* such as method='{RECOMMENDED}'\."):
        choose_method(few, split, SETTINGS, TWO)


def test_rows_that_cannot_be_dealt_to_folds_are_refused_with_a_way_out():
    rows = np.arange(80)
    labels = ["up" if i % 2 else "down" for i in rows]
    corpus = Corpus([f"text {i}" for i in rows], labels, [f"domain {i}" for i in rows])
    split = Split(rows, [], [], [], rule="by hand")
    message = f"(?s)cannot be cross-validated in 3 folds: No row .* Or name a method, such as method='{RECOMMENDED}'"
    with pytest.raises(ConfigError, match=message):
        choose_method(corpus, split, SETTINGS, TWO)


def test_a_class_of_one_domain_does_not_stop_the_comparison_where_its_labels_are_hidden():
    labels = np.where((CORPUS.domains == "books") & (np.arange(len(CORPUS)) % 3 == 0), "mixed", CORPUS.labels)
    choice = choose_method(replace(CORPUS, labels=labels), TARGET, SETTINGS, TWO)
    assert all(candidate.accuracy for candidate in choice.candidates)


def test_methods_that_run_on_the_cpu_only_compete_where_another_device_is_asked_for():
    assert choose_method(CORPUS, SPLIT, SETTINGS, TWO, device="cuda").candidates[1].accuracy


@pytest.mark.skipif(torch.cuda.is_available(), reason="the device is there")
def test_a_device_that_is_not_there_is_refused_before_any_is_tried():
    told: list[Candidate] = []
    with pytest.raises(ConfigError, match="Device 'cuda' was asked for and there is none"):
        how = AutoSettings(methods=("lr", "man-nll"), folds=2)
        choose_method(CORPUS, SPLIT, SETTINGS, how, device="cuda", on_candidate=told.append)
    assert not told


def compete(
    monkeypatch: pytest.MonkeyPatch,
    right: Mapping[str, float],
    seconds: Mapping[str, float] | None = None,
    split: Split = SPLIT,
    settings: RunSettings = SETTINGS,
    tell: Callable[[Callback], None] = lambda callback: None,
) -> tuple[AutoChoice, list[RunSettings]]:
    """Compare for a minute methods that answer a share of the rows rightly and take so many seconds for a fold."""
    now, trained = 0.0, []
    classes = (*CORPUS.class_names, "?")

    def train(
        corpus: Corpus, fold: Split, settings: RunSettings, *, callbacks: Sequence[Callback], **_: object
    ) -> SimpleNamespace:
        nonlocal now
        now += (seconds or {}).get(settings.method, 0)
        for callback in callbacks:
            tell(callback)
        trained.append(settings)

        def probabilities(corpus: Corpus, rows: np.ndarray) -> np.ndarray:
            known = round(right[settings.method] * len(rows))
            predicted = [corpus.labels[row] if i < known else "?" for i, row in enumerate(rows)]
            return np.array([[float(name == given) for name in classes] for given in predicted])

        return SimpleNamespace(model=SimpleNamespace(classes=classes), probabilities=probabilities)

    monkeypatch.setattr(folds_of_methods, "train_model", train)
    monkeypatch.setattr(folds_of_methods, "time", SimpleNamespace(monotonic=lambda: now))
    how = AutoSettings(methods=tuple(right), budget=1)
    return choose_method(CORPUS, split, settings, how), trained


def folds_of(trained: list[RunSettings]) -> dict[str, int]:
    return dict(Counter(settings.method for settings in trained))


@pytest.mark.parametrize(
    ("right", "best"),
    [
        ({"lr": 0.5, "fa-lr": 0.8, "mlp": 0.7}, "fa-lr"),
        ({"lr": 0.5, "fa-lr": 0.8, "mlp": 0.8}, "fa-lr"),
        ({"mlp": 0.8, "lr": 0.5, "fa-lr": 0.8}, "mlp"),
        ({"lr": 0, "fa-lr": 0}, "lr"),
    ],
)
def test_the_most_accurate_is_chosen_and_among_equals_the_earlier(
    right: dict[str, float], best: str, monkeypatch: pytest.MonkeyPatch
):
    choice, trained = compete(monkeypatch, right)
    assert choice.method == best
    assert folds_of(trained) == dict.fromkeys(right, 3)
    assert [candidate.method for candidate in choice.candidates] == list(right)


def test_each_method_is_trained_as_the_run_but_with_its_own_defaults(monkeypatch: pytest.MonkeyPatch):
    given = {"features": NGRAMS, "training": {"seed": 5, "max_epochs": 2}}
    settings = RunSettings(method="man-nll", method_settings={"hidden": [8]}, **given)
    choice, trained = compete(monkeypatch, {"lr": 1, "mlp": 1}, settings=settings)
    assert trained == [RunSettings(method=method, **given) for method in ("lr", "mlp") for _ in range(3)]
    assert choice.features == {}


@pytest.mark.parametrize(
    ("method", "given", "read"),
    [
        ("lr", {}, ("tfidf", 500_000, (1, 3))),
        ("fa-lr", {"weighting": "counts"}, ("counts", 500_000, (1, 3))),
        ("svm", {"max_features": 99}, ("tfidf", 99, (1, 3))),
        ("lr", {"ngram_range": (1, 1), "max_features": None}, ("tfidf", 500_000, (1, 1))),
        ("sped", {}, ("tfidf", 500_000, (1, 3))),
        ("mlp", {}, ("counts", 5000, (1, 2))),
        ("msda", {}, ("tfidf", 5000, (1, 2))),
    ],
    ids=["lr", "weighting", "size", "range", "recommended", "network", "square in the n-grams"],
)
def test_linear_methods_read_the_n_grams_of_the_recommended_one(
    method: str, given: dict[str, Any], read: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
):
    settings = RunSettings(features={"ngrams": given})
    choice, trained = compete(monkeypatch, {method: 1, "cnn": 0.5}, settings=settings)
    found = [tuple(own.of_featurizer("ngrams").model_dump(exclude={"min_df"}).values()) for own in trained[:3]]
    assert found == [read] * 3
    assert chosen_settings(settings, choice).complete() == trained[0].complete(), "trained as it was compared"
    config = TrainConfig.parse_all({**GIVEN, "method": "auto", "features": {"ngrams": given}})
    of_config = config.with_method(choice.method, choice.features)
    assert of_config.run.complete() == trained[0].complete(), "from the command line as well"
    assert json.loads(json.dumps(choice.features)) == choice.features


@pytest.mark.parametrize(
    ("targets", "how"),
    [
        ([], "3 folds of 168 labelled rows"),
        (["shoes"], f"3 folds of 120 labelled rows, {HIDDEN}, with the class prior shifted in 1 of 3 domains"),
        (
            ["shoes", "kitchen"],
            f"3 folds of 96 labelled rows, {HIDDEN}, with the class prior shifted in 1 of 2 domains",
        ),
        (["shoes", "kitchen", "books"], "3 folds of 48 labelled rows"),
    ],
)
def test_the_rule_says_how_it_was_measured(targets: list[str], how: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(choosing, "_FEWEST_ROWS", 40)
    choice, _ = compete(monkeypatch, {"lr": 1, "fa-lr": 1}, split=SPLIT.hide_labels(CORPUS, targets))
    assert choice.rule == how


def test_domains_too_small_to_be_resampled_are_not_said_to_be(monkeypatch: pytest.MonkeyPatch):
    small = CORPUS.thinned(15)
    split = holdout_split(small).hide_labels(small, ["shoes"])
    choice = choose_method(small, split, SETTINGS, TWO)
    assert choice.rule == f"3 folds of {len(split.train) + len(split.dev)} labelled rows, {HIDDEN}"


def without_shift(corpus: Corpus, split: Split, folds: Sequence[Split], seed: int) -> list[Split]:
    return list(folds)


def test_a_method_that_takes_the_labelled_prior_for_granted_loses_where_priors_are_shifted(
    monkeypatch: pytest.MonkeyPatch,
):
    corpus = load_corpus("demo").thinned(60)
    split = holdout_split(corpus).hide_labels(corpus, ["shoes"])
    classes = corpus.class_names

    def halves(rows: np.ndarray) -> np.ndarray:
        """Perfect but for this: half of a domain's rows are of each class."""
        answers = np.empty(len(rows), dtype=object)
        for name in set(corpus.domains[rows]):
            here = np.flatnonzero(corpus.domains[rows] == name)
            by_class = here[np.argsort(corpus.labels[rows[here]].astype(str), kind="stable")]
            answers[by_class] = np.repeat(classes, [len(here) // 2, len(here) - len(here) // 2])
        return answers

    def mostly_right(rows: np.ndarray) -> np.ndarray:
        wrong = np.where(corpus.labels[rows] == classes[0], classes[1], classes[0])
        return np.where(np.arange(len(rows)) % 33 == 0, wrong, corpus.labels[rows])

    def train(_: Corpus, fold: Split, settings: RunSettings, **__: object) -> SimpleNamespace:
        answer = {"lr": mostly_right, "fa-lr": halves}[settings.method]
        return SimpleNamespace(
            model=SimpleNamespace(classes=classes),
            probabilities=lambda _, rows: (answer(rows)[:, None] == np.array(classes)).astype(float),
        )

    monkeypatch.setattr(folds_of_methods, "train_model", train)
    assert choose_method(corpus, split, SETTINGS, TWO).method == "lr"
    monkeypatch.setattr(choosing, "shift_hidden_priors", without_shift)
    assert choose_method(corpus, split, SETTINGS, TWO).method == "fa-lr"


def test_sped_aligned_to_the_labelled_prior_is_chosen_only_if_hidden_domains_have_that_prior(
    monkeypatch: pytest.MonkeyPatch,
):
    """Good words are more frequent in films, bad ones in pans: another prior, or just another way to write?"""
    random = np.random.default_rng(0)
    targets, rows = [f"target {i}" for i in range(6)], []
    for domain, often in {"books": None, "films": "good", "pans": "bad", **dict.fromkeys(targets)}.items():
        for i in range(10 if domain in targets else 200):
            label, other = ("bad", "good") if i % 2 else ("good", "bad")
            sides = [label if random.random() < 0.7 else other for _ in range(8)]
            sides = [often if often and random.random() < 0.4 else side for side in sides]
            words = [f"{side}{k}" for side, k in zip(sides, random.integers(0, 20, size=8), strict=True)]
            rows.append((" ".join([*words, f"{domain}{i % 30}"]), label, domain))
    corpus = Corpus(*map(list, zip(*rows, strict=True)))
    split = holdout_split(corpus).hide_labels(corpus, targets)
    register("aligned", "sped", paper="none", fixed={"class_priors": "labelled"})(method_entry("sped").method)
    how, settings = AutoSettings(methods=("lr", "aligned")), RunSettings(features={"ngrams": {"ngram_range": (1, 1)}})
    lr, aligned = (candidate.accuracy or 0 for candidate in choose_method(corpus, split, settings, how).candidates)
    assert lr > aligned + 0.02
    monkeypatch.setattr(choosing, "shift_hidden_priors", without_shift)
    lr, aligned = (candidate.accuracy or 0 for candidate in choose_method(corpus, split, settings, how).candidates)
    assert aligned > lr + 0.02


def test_the_recommended_method_is_the_fallback():
    """The first is never dropped, and logistic regression on all n-grams can be slow."""
    assert AutoSettings().methods == (RECOMMENDED, "lr", "man-nll")


def test_a_method_that_would_not_end_in_time_is_stopped_after_the_fold_that_shows_it(monkeypatch: pytest.MonkeyPatch):
    right = {"lr": 0.5, "man-nll": 1, "fa-lr": 0.4, "mlp": 0.9}
    choice, trained = compete(monkeypatch, right, {"lr": 5, "man-nll": 20, "fa-lr": 4, "mlp": 4.5})
    assert folds_of(trained) == {"lr": 3, "man-nll": 1, "fa-lr": 3, "mlp": 1}
    assert [candidate.accuracy is None for candidate in choice.candidates] == [False, True, False, True]
    assert [candidate.seconds for candidate in choice.candidates] == [15, 20, 12, 4.5]
    assert choice.method == "lr"


@pytest.mark.parametrize(
    "tell",
    [
        lambda callback: callback.on_prepare("word vectors", 1, 5),
        lambda callback: callback.on_model_built(None, None),
        lambda callback: callback.on_step_end(1, 1, {}),
        lambda callback: callback.on_epoch_end(Epoch(1, {}, None, {}, 1), True),
        lambda callback: callback.on_candidate({"C": 1}, None),
    ],
    ids=["prepared", "built", "stepped", "epoch_ended", "tried"],
)
def test_a_method_is_stopped_at_whatever_it_tells_when_its_time_is_up(
    tell: Callable[[Callback], None], monkeypatch: pytest.MonkeyPatch
):
    _, trained = compete(monkeypatch, {"lr": 1, "mlp": 1}, {"lr": 5, "mlp": 50}, tell=tell)
    assert folds_of(trained) == {"lr": 3}


def test_the_first_is_tried_however_long_it_takes(monkeypatch: pytest.MonkeyPatch):
    choice, trained = compete(monkeypatch, {"lr": 0, "fa-lr": 1}, {"lr": 1000, "fa-lr": 1})
    assert folds_of(trained) == {"lr": 3}, "for another there is no time left"
    assert (choice.method, choice.candidates[0].accuracy, choice.candidates[1].accuracy) == ("lr", 0, None)


class Notes(Callback):
    def __init__(self) -> None:
        self.tries = self.steps = 0

    def on_step_end(self, epoch: int, iteration: int, log: Mapping[str, float]) -> None:
        self.steps += 1

    def on_epoch_end(self, epoch: Epoch, is_best: bool) -> None:
        raise AssertionError("a network without time must not come so far")

    def on_candidate(self, values: Mapping[str, Any], dev_accuracy: float | None) -> None:
        self.tries += 1


def test_a_network_without_time_is_stopped_at_once_and_everyone_is_told():
    notes, told = Notes(), []
    how = AutoSettings(methods=("lr", "man-nll"), budget=1e-6)
    choice = choose_method(CORPUS, SPLIT, SETTINGS, how, callbacks=[notes], on_candidate=told.append)
    assert tuple(told) == choice.candidates
    assert notes.tries > 3 and notes.steps == 0
    first, left_out = choice.candidates
    assert (first.method, left_out.method, choice.method) == ("lr", "man-nll", "lr")
    assert first.accuracy and first.error
    assert left_out.accuracy is None and left_out.error is None
    assert f"man-nll out of time ({left_out.seconds:.0f} s)" in choice.reason


@pytest.fixture
def diverging() -> str:
    """A method that cannot be fitted, under two names."""

    @register("diverging-too", "lr", paper="none")
    @register("diverging", "lr", paper="none")
    class Diverging(method_entry("lr").method):  # type: ignore[misc]
        def fit(self, data: object, context: object) -> NoReturn:
            raise TrainingError("Training has diverged.", "Lower the learning rate.")

    return "diverging"


@pytest.mark.parametrize("place", [0, 1])
def test_a_method_that_diverges_is_left_out(place: int, diverging: str):
    methods = ["lr"]
    methods.insert(place, diverging)
    choice = choose_method(CORPUS, SPLIT, SETTINGS, AutoSettings(methods=tuple(methods)))
    assert choice.method == "lr" and choice.candidates[place].diverged
    assert re.search(r"diverging diverged \(\d+ s\)", choice.reason)


def test_if_nothing_can_be_fitted_it_says_why(diverging: str):
    with pytest.raises(TrainingError, match=r"^Training has diverged\. Lower"):
        choose_method(CORPUS, SPLIT, SETTINGS, AutoSettings(methods=(diverging, "diverging-too")))


def test_the_reason_names_the_best_first():
    left_out = Candidate("man-nll", None, None, 61.4)
    choice = replace(CHOICE, candidates=(left_out, *CHOICE.candidates))
    assert choice.reason == (
        "lr 90.00 ± 2.00 % accuracy (2 s); fa-lr 80.00 ± 1.00 % accuracy (2 s); man-nll out of time (61 s); 3 folds"
    )


def test_a_choice_is_kept_and_read(tmp_path: Path):
    folder = RunFolder(tmp_path / "new" / "run")
    assert folder.choice() is None
    left_out = replace(CHOICE, candidates=(*CHOICE.candidates, Candidate("mlp", None, None, 0.1)))
    folder.keep_choice(left_out)
    assert folder.choice() == folder.choice(under_way=True) == left_out


@pytest.mark.parametrize("content", ["", "{", "null", "[]", '{"method": "lr"}', b"\xff\xfe{}"])
def test_a_damaged_file_is_no_choice(content: str | bytes, tmp_path: Path):
    (tmp_path / "choice.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert RunFolder(tmp_path).choice() is None


def test_a_choice_is_for_the_same_only(monkeypatch: pytest.MonkeyPatch):
    how = AutoSettings(methods=("lr", "fa-lr"), budget=1)
    choice, _ = compete(monkeypatch, {"lr": 0.5, "fa-lr": 0.8})

    def taken_up(
        corpus: Corpus = CORPUS, split: Split = SPLIT, settings: RunSettings = SETTINGS, **changed: Any
    ) -> bool:
        own = AutoSettings(**{**how.model_dump(), **changed})
        return is_choice_for(choice, corpus, split, settings, own)

    assert taken_up()
    of_another = SETTINGS.model_copy(update={"method": "mlp", "method_settings": {"hidden": [8]}})
    assert taken_up(settings=of_another), "the method is left open"
    labels = CORPUS.labels.copy()
    labels[SPLIT.train[0]] = "positive" if labels[SPLIT.train[0]] == "negative" else "negative"
    assert not taken_up(corpus=replace(CORPUS, labels=labels))
    assert not taken_up(split=TARGET)
    for other in ({"training": {"seed": 6}}, {"features": {"ngrams": {"max_features": 9}}}):
        assert not taken_up(settings=RunSettings(**{**SETTINGS.model_dump(), **other})), other
    for changed in ({"budget": 2}, {"folds": 2}, {"methods": ("lr", "mlp")}, {"methods": ("fa-lr", "lr")}):
        assert not taken_up(**changed), changed


def test_a_choice_among_the_earlier_default_methods_is_still_taken_up():
    earlier = AutoSettings(methods=("fa-lr", RECOMMENDED, "man-nll"))
    old = replace(CHOICE, fingerprint=choosing._identities(CORPUS, SPLIT, SETTINGS, earlier)[0])
    assert is_choice_for(old, CORPUS, SPLIT, SETTINGS, AutoSettings())
    assert not is_choice_for(old, CORPUS, SPLIT, SETTINGS, AutoSettings(methods=AutoSettings().methods))
    assert not is_choice_for(old, CORPUS, SPLIT, SETTINGS, AutoSettings(folds=2))


def test_auto_is_a_method_with_settings_of_its_own():
    config = TrainConfig.parse_all({**GIVEN, "method": "auto", "auto": {"methods": "lr, fa-lr", "budget": "2"}})
    assert config.auto == AutoSettings(methods=("lr", "fa-lr"), folds=3, budget=2)
    assert config.run.method == "lr"
    assert RECOMMENDED in TrainConfig.parse_all({**GIVEN, "method": "auto"}).auto.methods


@pytest.mark.parametrize(
    ("method", "idle"), [("man-nll", []), ("fa-lr", ["training"]), ("cnn", ["features"]), ("ensemble", [])]
)
def test_the_config_of_what_was_chosen_has_all_that_was_given_and_has_an_effect(method: str, idle: list[str]):
    given = {
        **GIVEN,
        "seed": 3,
        "split": {"unlabelled": ["shoes"]},
        "features": {"ngrams": {"max_features": 99}},
        "training": {"max_epochs": 2},
    }
    auto = TrainConfig.parse_all({**given, "method": "auto", "auto": {"budget": 2}})
    kept = {name: value for name, value in given.items() if name not in idle}
    assert auto.with_method(method) == TrainConfig.parse_all({**kept, "method": method})


AUTO = {"method": "auto"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            AUTO | {"settings": {"C": 1}},
            "^'C' has no effect: 'auto' compares several methods, .* Leave out C=\\.\\.\\.\\.$",
        ),
        (AUTO | {"settings": {"extractor": "cnn"}}, "^'extractor' has no effect: 'auto' compares"),
        ({"method": "aut"}, "There is no method 'aut'. Did you mean 'auto'"),
        (AUTO | {"auto": {"methods": ["lr", "fa-lr", "lr"]}}, "'auto.methods': 'lr' is named twice"),
        (AUTO | {"features": {"sequences": {"vectors": "random"}}}, "'vectors' has no effect: 'auto' compares"),
        (AUTO | {"features": {"sequences": {"min_count": 1}}}, "'min_count' has no effect: 'auto' compares"),
        (
            AUTO | {"auto": {"methods": ["lr", "fa-l"]}},
            "'auto.methods': there is no method 'fa-l'. Did you mean .* more.$",
        ),
        (AUTO | {"auto": {"methods": ["lr", "auto"]}}, "'auto.methods': there is no method 'auto'"),
        (AUTO | {"auto": {"methods": ["lr"]}}, "'auto.methods': .* at least 2"),
        (AUTO | {"auto": {"folds": 1}}, "'auto.folds': .* greater than or equal to 2"),
        (AUTO | {"auto": {"budget": 0}}, "'auto.budget': .* greater than 0"),
        (AUTO | {"auto": {"bugdet": 1}}, "'auto.bugdet' is not a setting. Did you mean 'budget'"),
        (
            {"auto": {"budget": 2}},
            "'budget' has no effect: it is for the method 'auto'\\. Leave out budget=\\.\\.\\.\\.$",
        ),
        ({"method": "fa-lr", "auto": {"folds": 2}}, "'folds' has no effect: it is for the method 'auto'\\."),
        ({"auto": {"methods": ["lr", "fa-lr"]}}, "'methods' has no effect: it is for the method 'auto'\\."),
    ],
)
def test_what_does_not_go_together_with_auto_or_without_it(values: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        TrainConfig.parse_all({**GIVEN, **values})


@pytest.mark.parametrize("method", [*METHODS, "auto"])
def test_a_template_shows_what_has_an_effect(method: str):
    sections = tomllib.loads(template("demo", "runs/x", method))
    assert ("auto" in sections) == (method == "auto")
    assert ("settings" in sections) == (method != "auto")
    TrainConfig.parse_all(sections)


def test_the_lines_of_the_template_of_auto_are_settings_at_their_defaults():
    lines = [line.removeprefix("# ") for line in template("demo", "runs/x", "auto").splitlines()[3:]]
    config = TrainConfig.parse_all(tomllib.loads("\n".join(line for line in lines if " =  #" not in f"{line}  #")))
    assert config.auto == AutoSettings()
    assert len(config.auto.model_fields_set) == len(AutoSettings.model_fields)


@pytest.mark.parametrize("method", ["sped", "fa-lr", "self-training", "ensemble"])
@pytest.mark.parametrize(("setting", "value"), [("extractor", "cnn"), ("hidden", [8])])
def test_a_setting_of_networks_is_refused_with_a_way_out_by_what_is_none(method: str, setting: str, value: object):
    message = f"'{setting}' is a setting of 'asp-mtl', .* more, not of '{method}'\\.\n.*'nonsense' is not"
    with pytest.raises(ConfigError, match=message):
        method_entry(method).settings({setting: value, "nonsense": 1})
    assert getattr(method_entry("man-nll").settings({setting: value}), setting)


@pytest.mark.parametrize("method", ["dann", "mdan-hmax", "asp-mtl"])
def test_a_setting_of_some_networks_is_refused_likewise_by_another(method: str):
    with pytest.raises(ConfigError, match=rf"'k' is a setting of .*'man-nll', not of '{method}'\."):
        method_entry(method).settings({"k": 2})


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("config") / "auto.toml"
    path.write_text('data = "demo"\nmethod = "auto"\n[auto]\nmethods = ["lr", "fa-lr"]\nfolds = 2\n')
    return path


@pytest.fixture(scope="module")
def chosen(config: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A folder that 'auto' has left, and what was printed."""
    folder = tmp_path_factory.mktemp("chosen") / "m"
    out, err = io.StringIO(), io.StringIO()
    command = ["multidomain", "train", "--config", str(config), "-o", str(folder)]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setenv("COLUMNS", "200")
        patch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as exit_:
            cli.main()
    assert not exit_.value.code, err.getvalue()
    return folder, out.getvalue(), err.getvalue()


@pytest.fixture
def folder(chosen: tuple[Path, str, str], tmp_path: Path) -> Path:
    """The same, to be changed."""
    return Path(shutil.copytree(chosen[0], tmp_path / "m"))


@pytest.fixture
def no_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    def compared(*_: object, **__: object) -> None:
        raise AssertionError("methods were compared")

    monkeypatch.setattr(running, "choose_method", compared)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_train_says_what_it_chose_and_what_the_other_gave(chosen: tuple[Path, str, str]):
    folder, out, err = chosen
    choice = RunFolder(folder).choice()
    assert choice
    assert f"auto chooses {choice.method}: {choice.reason}\n" in out
    assert "auto: compares lr with fa-lr, within 10 minutes\n" in err
    assert err.count("tried C 0.001") == 1, "only the run itself has lines of its own in a log"
    for candidate in choice.candidates:
        assert f"auto: {candidate}\n" in err
        assert str(candidate) in choice.reason
    assert f"{choice.method} on the test set of demo" in out
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["settings"]["method"] == choice.method
    corpus = load_corpus("demo")
    how = AutoSettings(methods=("lr", "fa-lr"), folds=2)
    assert outcome(choice) == outcome(choose_method(corpus, holdout_split(corpus), RunSettings(), how))


def test_the_settings_that_are_kept_repeat_the_run_without_comparing(
    chosen: tuple[Path, str, str], tmp_path: Path, run: Run, no_comparison: None
):
    folder, _, _ = chosen
    kept = tomllib.loads((folder / "train.toml").read_text())
    ngrams = {"max_features": 500_000, "ngram_range": [1, 3]}  # those of the recommended method, as it was compared
    assert kept == {"data": "demo", "output": str(folder), "method": "fa-lr", "features": {"ngrams": ngrams}}
    choice = RunFolder(folder).choice()
    assert choice and choice.features == {"ngrams": ngrams}
    code, out, err = run("train", "--config", folder / "train.toml", "-o", tmp_path / "again")
    assert code == 0, err
    assert "auto" not in out + err
    weights = [next(path.glob("weights-*")).read_bytes() for path in (folder, tmp_path / "again")]
    assert weights[0] == weights[1]
    assert not (tmp_path / "again" / "choice.json").exists()


def test_the_report_says_why(folder: Path, run: Run):
    choice = RunFolder(folder).choice()
    assert choice
    code, _, err = run("report", folder)
    assert code == 0, err
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "chosen because" in page and choice.reason in page
    for damaged in (json.dumps(asdict(CHOICE)), "{"):
        (folder / "choice.json").write_text(damaged)
        assert run("report", folder)[0] == 0
        assert "chosen because" not in (folder / "report.html").read_text(encoding="utf-8"), "it is of another model"


@pytest.mark.parametrize("by", ["auto", "what was chosen"])
def test_a_finished_run_is_read_again(by: str, folder: Path, config: Path, run: Run, no_comparison: None):
    before = content(folder)
    code, out, err = run(
        "train", "--config", config if by == "auto" else folder / "train.toml", "-o", folder, "--resume"
    )
    assert code == 0, err
    assert ("auto chooses fa-lr: fa-lr " in out) == (by == "auto")
    assert "fa-lr on the test set of demo" in out
    after = content(folder)
    del before["train.toml"], after["train.toml"]  # which names its folder
    assert after == before


def test_a_finished_run_of_another_seed_is_left_as_it_is(folder: Path, config: Path, run: Run, no_comparison: None):
    before = content(folder)
    code, _, err = run("train", "--config", config, "-o", folder, "--resume", "--seed", 1)
    assert code == 2 and "--overwrite" in err
    assert content(folder) == before


def test_what_has_no_effect_on_the_chosen_method_is_no_part_of_the_run(tmp_path: Path, config: Path, run: Run):
    folder = tmp_path / "m"
    code, _, err = run("train", "--config", config, "-o", folder, "--max-epochs", 3)
    assert code == 0, err
    code, out, err = run("train", "--config", folder / "train.toml", "--resume")
    assert code == 0, err
    assert "fa-lr on the test set of demo" in out


def test_a_folder_with_a_run_is_refused_before_methods_are_compared(
    folder: Path, config: Path, run: Run, no_comparison: None
):
    code, _, err = run("train", "--config", config, "-o", folder)
    assert code == 2 and "holds a run already" in err


def test_a_given_method_takes_the_choice_away(folder: Path, run: Run):
    code, _, err = run("train", "demo", "--method", "lr", "-o", folder, "--overwrite")
    assert code == 0, err
    assert not (folder / "choice.json").exists()
    assert run("report", folder)[0] == 0
    assert "chosen because" not in (folder / "report.html").read_text(encoding="utf-8")


def test_an_overwriting_run_that_was_stopped_leaves_the_old_choice(
    folder: Path, config: Path, run: Run, monkeypatch: pytest.MonkeyPatch
):
    def stopped(*_: object, **__: object) -> None:
        raise OSError("stopped")

    before = RunFolder(folder).choice()
    monkeypatch.setattr(running, "choose_method", lambda *_, **__: CHOICE)
    monkeypatch.setattr(running, "run_in_folder", stopped)
    code, out, _ = run("train", "--config", config, "-o", folder, "--overwrite", "--seed", 1)
    assert code == 2 and "auto chooses lr" in out
    assert RunFolder(folder).choice() == before, "the model is still the one that this led to"


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_killed_after_the_choice_it_goes_on_without_comparing_again(
    tmp_path: Path, config: Path, run: Run, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "m"
    command = ["train", "--config", str(config), "-o", str(folder)]
    process = subprocess.Popen(
        [sys.executable, "-m", "multidomain", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    deadline = time.monotonic() + 120
    while not (folder / "choice.json").exists():
        assert process.poll() is None, "it ended without a choice"
        assert time.monotonic() < deadline, "it makes no choice"
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL and not (folder / "metrics.json").exists(), "it was too fast to be killed"
    kept = (folder / "choice.json").read_bytes()
    compared = []
    monkeypatch.setattr(running, "choose_method", lambda *_, **__: compared.append(1) or CHOICE)
    code, out, err = run(*command, "--resume")
    assert code == 0, err
    assert not compared and "auto: compares" not in err
    assert "auto chooses fa-lr: fa-lr " in out
    assert (folder / "choice.json").read_bytes() == kept
    assert json.loads((folder / "metrics.json").read_text())["settings"]["method"] == "fa-lr"


@pytest.mark.parametrize("options", [("--resume", "--seed", 1), ()], ids=["another seed", "not resumed"])
def test_a_choice_that_was_left_is_not_taken_up_unasked(
    options: Sequence[object],
    tmp_path: Path,
    config: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    chosen: tuple[Path, str, str],
):
    folder = tmp_path / "m"
    folder.mkdir()
    shutil.copy(chosen[0] / "choice.json", folder)
    monkeypatch.setattr(running, "choose_method", lambda *_, **__: CHOICE)
    code, out, err = run("train", "--config", config, "-o", folder, *options)
    assert code == 0, err
    assert "auto chooses lr" in out and RunFolder(folder).choice() == CHOICE


def test_a_smoke_run_compares_and_trains_for_one_epoch(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch):
    seen = []

    def choose(corpus: Corpus, split: Split, settings: RunSettings, *_: object, **__: object) -> AutoChoice:
        seen.append((len(corpus), settings.training.max_epochs))
        return CHOICE

    def train(folder: Path, corpus: Corpus, split: Split, how: object, settings: RunSettings, **_: object) -> None:
        seen.append((len(corpus), settings.training.max_epochs))
        raise OSError("stopped")

    monkeypatch.setattr(running, "choose_method", choose)
    monkeypatch.setattr(running, "run_in_folder", train)
    code, _, err = run("train", "demo", "--method", "auto", "-o", tmp_path / "m", "--smoke", "--max-epochs", 3)
    assert code == 2 and "stopped" in err
    assert seen == [(320, 1), (320, 1)]


def test_a_dry_run_trains_nothing(tmp_path: Path, config: Path, run: Run, no_comparison: None):
    code, out, err = run("train", "--config", config, "-o", tmp_path / "m", "--dry-run")
    assert code == 0, err
    assert "dry run: nothing was trained" in out and "auto chooses" not in out
    assert not (tmp_path / "m").exists()


def test_init_writes_a_file_of_auto_that_train_accepts(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("init", "auto.toml", "--data", "demo", "-o", "runs/demo", "--method", "auto")
    assert code == 0 and "auto.toml: settings of 'auto'" in out
    code, out, err = run("train", "--config", "auto.toml", "--dry-run", "--budget", 2)
    assert code == 0, err
    assert "dry run: nothing was trained" in out
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--method", "auto", "--set", "C=1"),
            "'C' has no effect: 'auto' compares several methods, each with its defaults. Leave out --set C.",
        ),
        (("--method", "auto", "--vectors", "random"), "'vectors' has no effect: 'auto' compares"),
        (("--method", "auto", "--budget", 0), "'auto.budget': input should be greater than 0"),
        (("--budget", 3), "'budget' has no effect: it is for the method 'auto'. Leave out --budget."),
        (("--extractor", "cnn"), f"more, not of '{RECOMMENDED}'."),
    ],
)
def test_options_that_do_not_go_together(options: Sequence[object], message: str, tmp_path: Path, run: Run):
    code, _, err = run("train", "demo", "-o", tmp_path / "m", *options, "--dry-run")
    assert code == 2 and "Traceback" not in err
    assert message in err


def test_the_budget_goes_before_the_file(config: Path):
    file = tomllib.loads(config.read_text())
    both = TrainConfig.parse_all(merged({**file, "output": "x"}, {"auto": {"budget": 2}}))
    assert both.auto == AutoSettings(methods=("lr", "fa-lr"), folds=2, budget=2)
