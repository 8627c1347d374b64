"""What `multidomain train` does, from Python: a config, data and split, a method that is given or chosen, a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from multidomain.data.named.registry import load_corpus
from multidomain.data.splits import split_by
from multidomain.errors import ConfigError, DataError
from multidomain.model.model import Model
from multidomain.runs import train as running
from multidomain.runs.choice import AutoChoice, Candidate
from multidomain.runs.config import TrainConfig, read_config
from multidomain.runs.folder import RunFolder
from multidomain.runs.plan import SMOKE_ROWS, Plan, plan_run
from multidomain.runs.train import train
from multidomain.training.callbacks import Callback

CORPUS = load_corpus("demo").thinned(30)
TWO = {"method": "auto", "auto": {"methods": ["lr", "fa-lr"], "folds": 2}}
OTHER = AutoChoice("lr", (Candidate("lr", 0.9, 0.02, 1.5), Candidate("fa-lr", 0.8, 0.01, 2.5)), "2 folds", "abc")


def plan(folder: Path, **given: Any) -> Plan:
    """A plan on a small corpus, of a method that is quick unless another is given."""
    config = TrainConfig.parse_all({"data": "demo", "output": str(folder), "method": "lr", **given})
    return Plan(config, CORPUS, split_by(CORPUS, config.split_settings))


class Tried(Callback):
    """Counts the hyperparameters that it is told of."""

    def __init__(self) -> None:
        self.count = 0

    def on_candidate(self, values: Mapping[str, Any], dev_accuracy: float | None) -> None:
        self.count += 1


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """No methods are compared: 'lr' is chosen, and that it was is noted."""
    calls: list[int] = []
    monkeypatch.setattr(running, "choose_method", lambda *_, **__: calls.append(1) or OTHER)
    return calls


# --- what is trained on -----------------------------------------------------------------------------------


def test_a_config_says_what_is_read_and_how_it_is_split(tmp_path: Path):
    given = {"data": "demo", "output": str(tmp_path / "m"), "seed": 4, "split": {"unlabelled": ["shoes"]}}
    planned = plan_run(TrainConfig.parse_all({**given, "method": "mlp", "training": {"max_epochs": 7}}))
    assert len(planned.corpus) == len(load_corpus("demo"))
    expected = split_by(planned.corpus, planned.config.split_settings)
    for part in ("train", "dev", "test", "unlabelled"):
        np.testing.assert_array_equal(getattr(planned.split, part), getattr(expected, part))
    assert "shoes" not in planned.corpus.domains[planned.split.train]
    assert (planned.settings.method, planned.settings.training.max_epochs, planned.settings.training.seed) == (
        "mlp", 7, 4
    )  # fmt: skip
    assert planned.folder.path == tmp_path / "m" and not planned.folder.path.exists()


def test_a_trial_is_one_epoch_on_a_few_rows(tmp_path: Path):
    given = {"data": "demo", "output": str(tmp_path / "m"), "method": "mlp", "training": {"max_epochs": 7}}
    planned = plan_run(TrainConfig.parse_all(given), smoke=True)
    assert planned.settings.training.max_epochs == 1
    assert planned.config.training.max_epochs == 7, "what was given is kept"
    pairs = list(zip(planned.corpus.domains, planned.corpus.labels, strict=True))
    assert {pairs.count(pair) for pair in set(pairs)} == {SMOKE_ROWS}


def test_parts_come_from_files_of_their_own(tmp_path: Path):
    lines = {
        "train": [f"good {i},up,a\nbad {i},down,b" for i in range(20)],
        "dev": ["good dev,up,a"],
        "test": ["bad test,down,b", "good test,up,a"],
        "more": ["so so,,a", "never mind,,b", "as you like,,c"],
    }
    files = {name: tmp_path / f"{name}.csv" for name in lines}
    for name, path in files.items():
        path.write_text("\n".join(["text,label,domain", *lines[name]]) + "\n", encoding="utf-8")
    reading = {"dev": str(files["dev"]), "test": str(files["test"]), "text_only": str(files["more"])}
    config = TrainConfig.parse_all({"data": str(files["train"]), "output": str(tmp_path / "m"), "reading": reading})
    planned = plan_run(config)
    rows = {part: len(getattr(planned.split, part)) for part in ("train", "dev", "test", "unlabelled")}
    assert rows == {"train": 40, "dev": 1, "test": 2, "unlabelled": 3}
    assert set(planned.corpus.documents[planned.split.test]) == {"bad test", "good test"}


# --- a dry run --------------------------------------------------------------------------------------------


def test_a_check_trains_nothing_and_returns_notes_on_the_data(tmp_path: Path):
    whole = plan(tmp_path / "m")
    assert whole.check(resume=False, overwrite=False) == []
    only = replace(CORPUS, domains=np.array(["books"] * len(CORPUS), dtype=object))
    one_domain = Plan(whole.config, only, whole.split)
    assert [note.kind for note in one_domain.check(resume=False, overwrite=False)] == ["one-domain"]
    assert not (tmp_path / "m").exists()


def test_a_check_refuses_data_that_training_would(tmp_path: Path):
    whole = plan(tmp_path / "m")
    same = Plan(whole.config, replace(CORPUS, labels=np.array(["up"] * len(CORPUS), dtype=object)), whole.split)
    with pytest.raises(DataError, match=r"have the class 'up'.* Check the label column \(label_column=\.\.\.\)"):
        same.check(resume=False, overwrite=False)


def test_a_check_refuses_a_folder_that_training_would(tmp_path: Path):
    train(plan(tmp_path))
    with pytest.raises(ConfigError, match=r"holds a run already\. Resume it \(resume=True\), replace it \(overwrite="):
        plan(tmp_path).check(resume=False, overwrite=False)
    with pytest.raises(ConfigError, match="holds a run already"):
        train(plan(tmp_path))
    for options in ({"resume": True, "overwrite": False}, {"resume": False, "overwrite": True}):
        assert plan(tmp_path).check(**options) == []
    trial = replace(plan(tmp_path), smoke=True)
    with pytest.raises(ConfigError, match="real run, which a smoke run must not replace"):
        trial.check(resume=False, overwrite=True)


def test_a_check_of_auto_compares_nothing(tmp_path: Path, compared: list[int]):
    assert plan(tmp_path / "m", **TWO).check(resume=False, overwrite=False) == []
    assert not compared and not (tmp_path / "m").exists()


# --- a method that is given -------------------------------------------------------------------------------


def test_a_given_method_is_trained_and_its_config_kept(tmp_path: Path):
    planned = plan(tmp_path / "m", settings={"C": "1"}, seed=3)
    outcome = train(planned)
    assert outcome.choice is None and outcome.config == planned.config
    assert outcome.result.test is not None
    assert RunFolder(tmp_path / "m").test_scores()["accuracy"] == outcome.result.test.accuracy
    assert Model.load(tmp_path / "m").method_name == "lr"
    kept = read_config(tmp_path / "m" / "train.toml")
    assert kept == {
        "data": "demo", "output": str(tmp_path / "m"), "method": "lr", "seed": 3, "settings": {"C": 1.0}
    }  # fmt: skip
    again = TrainConfig.parse_all({**kept, "output": str(tmp_path / "again")})
    repeated = train(Plan(again, planned.corpus, planned.split)).result
    assert repeated.test == outcome.result.test and repeated.chosen == outcome.result.chosen


def test_the_config_says_how_many_threads(tmp_path: Path):
    try:
        train(plan(tmp_path, threads=2))
        assert torch.get_num_threads() == 2
        assert json.loads((tmp_path / "metrics.json").read_text())["machine"]["threads"] == 2
    finally:
        torch.set_num_threads(1)


def test_a_given_method_removes_the_choice_of_an_earlier_model(tmp_path: Path, compared: list[int]):
    train(plan(tmp_path, **TWO))
    assert RunFolder(tmp_path).choice() == OTHER
    train(plan(tmp_path), overwrite=True)
    assert RunFolder(tmp_path).choice() is None


class Stop(Callback):
    """A signal that comes while the method is fitted."""

    def on_candidate(self, values: Mapping[str, Any], dev_accuracy: float | None) -> None:
        raise KeyboardInterrupt


def test_a_given_method_that_was_resumed_removes_the_choice_too(tmp_path: Path, compared: list[int]):
    train(plan(tmp_path, **TWO))
    with pytest.raises(KeyboardInterrupt):
        train(plan(tmp_path, seed=1), overwrite=True, callbacks=[Stop()])
    assert RunFolder(tmp_path).choice() == OTHER
    train(plan(tmp_path, seed=1), resume=True)
    assert RunFolder(tmp_path).choice() is None


# --- a method that is chosen ------------------------------------------------------------------------------


def test_auto_compares_methods_and_trains_the_best(tmp_path: Path):
    heard: list[Any] = []
    while_compared, of_the_run = Tried(), Tried()
    outcome = train(
        plan(tmp_path, **TWO),
        callbacks=[of_the_run],
        auto_callbacks=[while_compared],
        on_compare=lambda: heard.append("compare"),
        on_candidate=lambda candidate: heard.append(candidate.method),
        on_choice=heard.append,
    )
    choice = outcome.choice
    assert choice is not None
    assert heard == ["compare", "lr", "fa-lr", choice]
    best = max(choice.candidates, key=lambda candidate: candidate.accuracy or 0)
    assert choice.method == best.method == outcome.config.method == Model.load(tmp_path).method_name
    assert RunFolder(tmp_path).choice() == choice
    given = {"data": "demo", "output": str(tmp_path), "method": choice.method}
    ngrams = {"max_features": 500_000, "ngram_range": [1, 3]}
    assert read_config(tmp_path / "train.toml") == {**given, "features": {"ngrams": ngrams}}
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["settings"]["features"] == {"ngrams": {"weighting": "tfidf", **ngrams, "min_df": 1}}
    tried = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert of_the_run.count == len(tried) > 0
    assert while_compared.count > of_the_run.count, "two methods in two folds"


def test_a_choice_is_no_part_of_what_decides_the_run(tmp_path: Path, compared: list[int]):
    """A run of 'auto' is that of the method which it chose."""
    chosen = train(plan(tmp_path / "auto", **TWO))
    given = train(plan(tmp_path / "given"))
    assert compared == [1]
    assert chosen.result.test == given.result.test
    settings = [json.loads((tmp_path / name / "metrics.json").read_text())["settings"] for name in ("auto", "given")]
    assert settings[0] == settings[1]


def test_a_run_that_has_ended_is_read_again_with_its_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first = train(plan(tmp_path, **TWO))

    def compare(*_: object, **__: object) -> None:
        raise AssertionError("methods were compared")

    monkeypatch.setattr(running, "choose_method", compare)
    heard: list[AutoChoice] = []
    again = train(plan(tmp_path, **TWO), resume=True, on_choice=heard.append)
    assert heard == [first.choice] and again.choice == first.choice
    assert again.result == first.result
    other = plan(tmp_path, **{**TWO, "seed": 1})
    with pytest.raises(
        ConfigError, match=r"not chosen for these data and settings\. Replace it \(overwrite=True\), or"
    ):
        train(other, resume=True)
    assert RunFolder(tmp_path).choice() == first.choice


def test_what_an_earlier_version_chose_is_trained_with_the_features_that_it_was_compared_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its choice says nothing of features: the method had its own defaults."""
    planned = plan(tmp_path, **TWO)
    monkeypatch.setattr(running, "is_choice_for", lambda *_: True)
    RunFolder(tmp_path).keep_choice(OTHER)
    old = json.loads((tmp_path / "choice.json").read_text())
    del old["features"]
    (tmp_path / "choice.json").write_text(json.dumps(old))
    train(planned, resume=True)
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    expected = {"weighting": "tfidf", "max_features": 5000, "ngram_range": [1, 2], "min_df": 1}
    assert metrics["settings"]["features"] == {"ngrams": expected}


@pytest.mark.parametrize("left", ["{", json.dumps({"method": "lr"}), "of other data"])
def test_a_choice_that_is_damaged_or_of_something_else_is_made_again(left: str, tmp_path: Path, compared: list[int]):
    folder = RunFolder(tmp_path)
    folder.keep_choice(replace(OTHER, method="fa-lr"))
    if left != "of other data":
        (tmp_path / "choice.json").write_text(left)
    outcome = train(plan(tmp_path, **TWO), resume=True)
    assert compared == [1]
    assert outcome.choice == folder.choice() == OTHER


@pytest.mark.parametrize("before", [{}, TWO], ids=["over a given method", "over another choice"])
def test_a_comparison_over_a_finished_run_that_was_stopped_can_be_resumed(
    before: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    train(plan(tmp_path, seed=1, **before))
    old = RunFolder(tmp_path).metrics()
    with monkeypatch.context() as stopping, pytest.raises(KeyboardInterrupt):
        stopping.setattr(running, "choose_method", lambda *_, **__: Stop().on_candidate({}, None))
        train(plan(tmp_path, **TWO), overwrite=True)
    assert RunFolder(tmp_path).metrics() == old and RunFolder(tmp_path).is_under_way
    train(plan(tmp_path, **TWO), resume=True)
    new = RunFolder(tmp_path).ended()
    assert new and new["settings"]["training"]["seed"] == 0


def test_a_comparison_over_a_finished_run_that_failed_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object, **__: object) -> None:
        raise ConfigError("There are too few rows.")

    train(plan(tmp_path, seed=1))
    monkeypatch.setattr(running, "choose_method", refuse)
    with pytest.raises(ConfigError, match="too few"):
        train(plan(tmp_path, **TWO), overwrite=True)
    assert RunFolder(tmp_path).ended()


def test_a_folder_with_a_run_is_refused_before_methods_are_compared(tmp_path: Path, compared: list[int]):
    train(plan(tmp_path))
    with pytest.raises(ConfigError, match="holds a run already"):
        train(plan(tmp_path, **TWO))
    assert not compared


def test_data_that_cannot_be_trained_on_are_refused_before_methods_are_compared(tmp_path: Path, compared: list[int]):
    whole = plan(tmp_path / "m", **TWO)
    same = replace(whole, corpus=replace(CORPUS, labels=np.array(["up"] * len(CORPUS), dtype=object)))
    with pytest.raises(DataError, match="have the class 'up'"):
        train(same)
    assert not compared and not (tmp_path / "m").exists()
