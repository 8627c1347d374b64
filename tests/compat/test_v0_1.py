"""What version 0.1 wrote before settings were renamed is still read: models, runs, a checkpoint, TOML, records.

The folder ``v0.1`` was written by that version (commit 09681ba) from ``reviews.csv``. ``answers.json`` holds what it
predicted for some of the rows, and for the run that was stopped what it would have predicted in the end.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from multidomain import Model, MultiDomainClassifier, load_corpus
from multidomain.data.corpus import Corpus
from multidomain.errors import ConfigError
from multidomain.experiments.records import read_records
from multidomain.renamings import config_renamed
from multidomain.report.model.page import write_model_report
from multidomain.runs.config import TrainConfig, read_config
from multidomain.runs.folder import RunFolder
from multidomain.training.settings import RunSettings

OLD = Path(__file__).parent / "v0.1"
ANSWERS: dict[str, Any] = json.loads((OLD / "answers.json").read_text(encoding="utf-8"))
MODELS = ("sped", "man-nll", "fa-lr", "self-training", "cnn", "ensemble", "auto")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return load_corpus(OLD / "reviews.csv")


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy that may be written to; paths in it are relative to the folder."""
    folder = tmp_path / "v0.1"
    shutil.copytree(OLD, folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("name", MODELS)
def test_models_predict_as_they_did(name: str, corpus: Corpus):
    rows, model = ANSWERS["rows"], Model.load(OLD / name)
    known = model.predict_proba(corpus.documents[rows], list(corpus.domains[rows]))
    np.testing.assert_allclose(known, ANSWERS[name]["known"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        model.predict_proba(corpus.documents[rows]), ANSWERS[name]["unknown"], rtol=1e-4, atol=1e-5
    )


def test_an_estimator_predicts_as_it_did(corpus: Corpus):
    rows, estimator = ANSWERS["rows"], MultiDomainClassifier.load(OLD / "estimator")
    predicted = estimator.predict_proba(corpus.documents[rows], corpus.domains[rows])
    np.testing.assert_allclose(predicted, ANSWERS["estimator"]["known"], rtol=1e-4, atol=1e-5)
    assert estimator.weighting == "tfidf", "the parameter was called features"
    assert estimator.get_params()["hidden"] == (8,) and "features" not in estimator.get_params()


@pytest.mark.parametrize("name", MODELS)
def test_runs_are_scored_reported_and_read_again(name: str, run: Run, old: Path):
    _, out, err = run("evaluate", name, "reviews.csv", "--json")
    assert json.loads(out)["accuracy"] == pytest.approx(ANSWERS[name]["test"]), err
    page = write_model_report(old / name).read_text(encoding="utf-8")
    assert "<h1>" in page and ("pseudo_label_weight" in page) == (name in ("sped", "auto"))
    if name == "ensemble":  # its member stands in another folder now
        return
    code, out, err = run("train", "--config", f"{name}/train.toml", "--resume")
    assert code == 0, err
    assert f"{100 * ANSWERS[name]['test']:.2f}" in out, "an ended run is only read again"


def test_a_stopped_run_goes_on_to_the_same_end(run: Run, old: Path, corpus: Corpus):
    code, _, err = run("train", "--config", "stopped.toml", "--resume")
    assert code == 0 and "resuming after epoch" in err, err
    rows, model = ANSWERS["rows"], Model.load("stopped")
    model.method.inverse_temperature.fill(1)  # there were none
    predicted = model.predict_proba(corpus.documents[rows], list(corpus.domains[rows]))
    # On another processor the later epochs round otherwise.
    np.testing.assert_allclose(predicted, ANSWERS["stopped"]["known"], atol=0.02)


def test_a_run_with_other_settings_is_not_resumed(run: Run, old: Path):
    code, _, err = run("train", "--config", "stopped.toml", "--resume", "--batch-size", "4")
    assert code == 2 and "belongs to a run with other settings or other data" in err


def test_the_choice_of_auto_is_known(old: Path):
    choice = RunFolder(old / "auto").choice()
    assert choice is not None and choice.method == "sped"
    assert choice.features == {}


def test_a_run_of_auto_is_read_again_though_its_default_methods_are_others_now(run: Run, old: Path):
    given = ("--method", "auto", "--budget", 5, "--max-epochs", 2, "--max-features", 200, "--ngram-range", "1,1")
    code, out, err = run("train", "reviews.csv", "-o", "auto", *given, "--resume")
    assert code == 0, err
    assert "auto chooses sped: " in out and "auto: compares" not in err


def test_toml_files_are_read_under_the_new_names():
    values = read_config(OLD / "stopped.toml")
    assert values["features"] == {"ngrams": {"max_features": 200, "ngram_range": [1, 1]}}
    config = TrainConfig.parse_all(values)
    assert config.run.of_featurizer("ngrams").model_dump() == {
        "weighting": "counts",
        "max_features": 200,
        "ngram_range": (1, 1),
        "min_df": 1,
    }
    old = {"data": "x", "output": "y", "method": "auto", "choice": {"budget": 3}}
    assert TrainConfig.parse_all(old).auto.budget == 3
    old = {"data": "x", "output": "y", "method": "sped", "settings": {"trust": 0.3}}
    assert TrainConfig.parse_all(old).run.complete()["method_settings"]["pseudo_label_weight"] == 0.3
    old = {"data": "x", "output": "y", "method": "cnn", "words": {"max_length": 9, "vectors": "random"}}
    assert TrainConfig.parse_all(old).run.of_featurizer("sequences").model_dump()["max_length"] == 9


def test_settings_of_runs_are_read_under_the_new_names():
    old = json.loads((OLD / "sped" / "metrics.json").read_text(encoding="utf-8"))["settings"]
    assert "trust" in old["method_settings"] and "words" in old
    renamed = RunFolder(OLD / "sped").metrics()["settings"]
    assert renamed["method_settings"]["pseudo_label_weight"] == old["method_settings"]["trust"]
    with pytest.raises(ConfigError, match="'match_shares' is now 'class_priors'"):  # what was run then is no more
        RunSettings.from_record(renamed)


def test_all_records_still_mean_something():
    """Every record of the tables has settings that could be run today, and none is lost by a renaming."""
    for path in sorted((Path(__file__).parents[2] / "results").glob("table*.jsonl")):
        for record in read_records(path):
            complete = RunSettings.from_record(record["config"]).complete()
            assert complete["method"] == record["method"]
            old = config_renamed(record["config"])["method_settings"]
            assert {name: complete["method_settings"][name] for name in old} == old, path.name
