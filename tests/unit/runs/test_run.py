"""A run in a folder: what it replaces, what it leaves alone, and how it goes on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import mlflow
import numpy as np
import pytest
from safetensors.numpy import save_file

from multidomain.data.corpus import Corpus
from multidomain.data.named.registry import load_corpus
from multidomain.data.settings import SplitSettings
from multidomain.data.splits import split_by
from multidomain.data.values import ONLY_DOMAIN
from multidomain.errors import ConfigError, ModelError
from multidomain.evaluation.evaluate import baselines, evaluate
from multidomain.methods.history import Epoch
from multidomain.model.model import Model
from multidomain.runs.folder import RunFolder
from multidomain.runs.run import run_in_folder
from multidomain.training.callbacks import Callback
from multidomain.training.settings import RunSettings
from multidomain.training.tracking import MLflow
from multidomain.training.train import train_model

Run = Callable[..., tuple[int, str, str]]
CORPUS = load_corpus("demo").thinned(20)
SPLIT = SplitSettings()


class Stop(Callback):
    def on_epoch_end(self, epoch: Epoch, is_best: bool) -> None:
        if epoch.epoch == 2:
            raise KeyboardInterrupt


def settings(lam: float = 0.05) -> RunSettings:
    training = {"max_epochs": 3, "patience": 3, "checkpoint_seconds": 0}
    return RunSettings(method="man-nll", method_settings={"hidden": [8], "lam": lam}, training=training)


def train(folder: Path, lam: float = 0.05, corpus: Corpus = CORPUS, **options: object) -> None:
    run_in_folder(folder, corpus, split_by(corpus, SPLIT), SPLIT, settings(lam), **options)


def test_an_overwriting_run_that_was_stopped_leaves_the_old_one_whole_and_can_go_on(tmp_path: Path, run: Run):
    train(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, lam=0.5, overwrite=True, callbacks=[Stop()])
    assert all((tmp_path / name).read_bytes() == content for name, content in before.items())
    code, _, err = run("report", tmp_path)
    assert code == 0, err
    train(tmp_path, lam=0.5, resume=True)
    kept = json.loads((tmp_path / "metrics.json").read_text())["settings"]["method_settings"]
    assert kept["lam"] == 0.5
    assert not list(tmp_path.glob("log.new*")) and not list(tmp_path.glob("checkpoint*"))
    assert not (tmp_path / "report.html").exists(), "it was of the old model"
    whole = tmp_path / "whole"
    train(whole, lam=0.5)
    texts = ["good", "bad pan"]
    assert (Model.load(tmp_path).predict_proba(texts) == Model.load(whole).predict_proba(texts)).all()


def test_what_a_killed_run_has_left_is_no_part_of_the_next_one(tmp_path: Path):
    """Neither its log, which a method that logs nothing would inherit, nor half a checkpoint."""
    (tmp_path / "log.jsonl").write_text('{"epoch": 1}\n')
    (tmp_path / ".checkpoint.safetensors.4000000.partial").write_text("half")
    split = split_by(CORPUS, SPLIT)
    run_in_folder(tmp_path, CORPUS, split, SPLIT, RunSettings(method="lr", method_settings={"C": 1.0}))
    assert not (tmp_path / "log.jsonl").exists() or '"epoch"' not in (tmp_path / "log.jsonl").read_text()
    assert not list(tmp_path.glob(".*.partial"))


def test_what_a_process_has_left_that_was_killed_just_before_is_completed(tmp_path: Path):
    """It held the lock when this run looked at the folder, and was killed when its files were to be put in place."""
    folder = RunFolder(tmp_path)
    (tmp_path / ".committed").mkdir()
    (tmp_path / ".committed" / "model.json").write_text("{}")
    with (
        pytest.raises(ConfigError, match="holds a run already"),
        folder.under_way(settings(), resume=False, overwrite=False, smoke=False),
    ):
        pytest.fail("it began over the run that had ended")
    assert (tmp_path / "model.json").exists()


def test_a_smoke_run_gives_way_and_never_replaces(tmp_path: Path, run: Run):
    short = ("--method", "man-nll", "--set", "hidden=8", "--max-epochs", 1)
    assert run("train", "demo", "-o", tmp_path / "m", "--smoke", *short)[0] == 0
    assert run("train", "demo", "-o", tmp_path / "m", *short)[0] == 0
    code, _, err = run("train", "demo", "-o", tmp_path / "m", "--smoke", "--overwrite", *short)
    assert code == 2 and "real run, which a smoke run must not replace" in err


def test_a_dry_run_refuses_what_training_would(tmp_path: Path, run: Run):
    one = tmp_path / "one.csv"
    one.write_text("text,label,domain\n" + "".join(f"good {i},up,a\nfine {i},up,b\n" for i in range(30)))
    code, _, err = run("train", one, "-o", tmp_path / "m", "--dry-run")
    assert code == 2 and "have the class 'up'" in err
    train(tmp_path / "m")
    tensorboard = tmp_path / "tb"
    code, _, err = run("train", "demo", "-o", tmp_path / "m", "--dry-run", "--tensorboard", tensorboard)
    assert code == 2 and "holds a run already" in err
    assert not tensorboard.exists()


def test_odd_names_and_stops_do_not_disturb_tracking(tmp_path: Path):
    odd = Corpus(CORPUS.documents, CORPUS.labels, [f"R&B <{name}>" for name in CORPUS.domains])
    uri = (tmp_path / "mlruns").as_uri()
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "a", corpus=odd, callbacks=[MLflow(uri, "a"), Stop()])
    train(tmp_path / "b", corpus=odd, callbacks=[MLflow(uri, "b")])
    client = mlflow.MlflowClient(tracking_uri=uri)
    runs = client.search_runs([client.get_experiment_by_name("multidomain").experiment_id])
    assert {r.info.run_name: r.info.status for r in runs} == {"a": "FAILED", "b": "FINISHED"}
    metrics = next(r.data.metrics for r in runs if r.info.run_name == "b")
    assert sum(bool(re.match("test/accuracy of R_B", name)) for name in metrics) == 4


def test_data_without_domains_has_no_answer_from_shared_features_alone():
    corpus = Corpus(CORPUS.documents, CORPUS.labels, [ONLY_DOMAIN] * len(CORPUS))
    split = split_by(corpus, SPLIT)
    trained = train_model(corpus, split, settings())
    assert [note.kind for note in trained.notes] == ["one-domain"]
    simpler = baselines(trained.model, corpus, split.test, trained.encoded, split.train)
    assert list(simpler) == ["majority_accuracy"]
    scores = evaluate(trained.model, corpus, split.test, trained.probabilities(corpus, split.test), baselines=simpler)
    assert scores.domains[0].shared_accuracy is None and scores.domains[0].majority_accuracy is not None


def test_a_run_whose_metrics_are_damaged_can_be_replaced(tmp_path: Path):
    train(tmp_path)
    (tmp_path / "metrics.json").write_text("{")
    with pytest.raises(ModelError, match=r"is cut short or damaged .*train again with overwrite=True"):
        train(tmp_path)
    train(tmp_path, overwrite=True)
    assert json.loads((tmp_path / "metrics.json").read_text())["result"]


@pytest.mark.parametrize("content", [b"", b"\x10", b"\xff" * 40, None])
def test_digests_that_are_cut_short_or_of_another_kind(content: bytes | None, tmp_path: Path):
    path = tmp_path / "seen.safetensors"
    if content is None:
        save_file({"texts": np.ones((2, 2), dtype=np.float32)}, path)
    else:
        path.write_bytes(content)
    with pytest.raises(ModelError, match=r"seen\.safetensors (is cut short or damaged|does not hold digests).*again"):
        RunFolder(tmp_path).seen()
