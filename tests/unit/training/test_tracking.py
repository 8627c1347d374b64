"""Curves and figures in other tools, read back by these tools themselves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import mlflow
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

Run = Callable[..., tuple[int, str, str]]
SMALL = ("--method", "man-nll", "--set", "hidden=8", "--max-epochs", 3, "--patience", 3)


def epochs(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]


def test_tensorboard_has_the_curves_of_the_log(tmp_path: Path, run: Run):
    code, _, err = run("train", "demo", "-o", tmp_path / "m", *SMALL, "--tensorboard", tmp_path / "tb")
    assert code == 0, err
    events = EventAccumulator(str(tmp_path / "tb"))
    events.Reload()
    for name, of in (("train/J_C", lambda e: e["log"]["J_C"]), ("dev/accuracy", lambda e: e["dev_accuracy"])):
        shown = [(event.step, event.value) for event in events.Scalars(name)]
        assert shown == [(e["epoch"], pytest.approx(of(e))) for e in epochs(tmp_path / "m")]
    test = json.loads((tmp_path / "m" / "metrics.json").read_text())["result"]["test"]
    assert events.Scalars("test/accuracy")[0].value == pytest.approx(test["accuracy"])


def test_mlflow_has_settings_curves_and_figures(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = (tmp_path / "mlruns").as_uri()
    code, _, err = run("train", "demo", "-o", tmp_path / "m", *SMALL, "--mlflow", uri)
    assert code == 0, err
    client = mlflow.MlflowClient(tracking_uri=uri)
    found = client.search_runs([client.get_experiment_by_name("multidomain").experiment_id])
    assert [r.info.status for r in found] == ["FINISHED"]
    assert found[0].info.run_name == "m"
    assert found[0].data.params["settings.method_settings.lam"] == "0.05"
    curve = client.get_metric_history(found[0].info.run_id, "dev/accuracy")
    assert [(m.step, m.value) for m in curve] == [(e["epoch"], e["dev_accuracy"]) for e in epochs(tmp_path / "m")]
    test = json.loads((tmp_path / "m" / "metrics.json").read_text())["result"]["test"]
    assert found[0].data.metrics["test/accuracy"] == pytest.approx(test["accuracy"])


def test_methods_fitted_at_once_show_what_they_tried(tmp_path: Path, run: Run):
    code, _, _ = run("train", "demo", "-o", tmp_path / "m", "--method", "fa-lr", "--tensorboard", tmp_path / "tb")
    assert code == 0
    events = EventAccumulator(str(tmp_path / "tb"))
    events.Reload()
    assert len(events.Scalars("dev/accuracy")) == len(epochs(tmp_path / "m")) > 1


@pytest.mark.parametrize("options", [SMALL, ("--method", "fa-lr")], ids=["in epochs", "at once"])
def test_another_metric_has_a_curve_of_its_own(options: tuple, tmp_path: Path, run: Run):
    metric = ("--metric", "worst-domain", "--tensorboard", tmp_path / "tb")
    code, _, err = run("train", "demo", "-o", tmp_path / "m", *options, *metric)
    assert code == 0, err
    events = EventAccumulator(str(tmp_path / "tb"))
    events.Reload()
    logged = epochs(tmp_path / "m")
    assert [event.value for event in events.Scalars("dev/score")] == pytest.approx([e["dev_score"] for e in logged])
    assert ("dev/accuracy" in events.Tags()["scalars"]) == ("dev_accuracy" in logged[0])


def test_a_place_that_cannot_be_logged_to(tmp_path: Path, run: Run):
    code, _, err = run("train", "demo", "-o", tmp_path / "m", *SMALL, "--mlflow", "gopher://nowhere")
    assert code == 2
    assert "MLflow cannot log to 'gopher://nowhere'" in err and "Traceback" not in err
    assert not (tmp_path / "m").exists()
