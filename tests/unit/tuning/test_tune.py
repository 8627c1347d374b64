"""Studies in this process: what is tried, stopped, recorded and refused."""

from __future__ import annotations

import csv
import json
import tomllib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from studies import NETWORK, Here, small_study

from multidomain.code import code_hash
from multidomain.errors import ConfigError, ModelError, TrainingError, WorkerError
from multidomain.runs.config import TrainConfig
from multidomain.runs.job import Job
from multidomain.runs.plan import plan_run
from multidomain.runs.train import train
from multidomain.tuning import tune as running
from multidomain.tuning.folder import BEST, JOURNAL, STUDY, TRIALS, best_of
from multidomain.tuning.space import Dimension
from multidomain.tuning.trial import Trial, TrialRecord, run_trial, scores_to_beat
from multidomain.tuning.tune import Progress, Study, tune

LINEAR = {"method": "fa-lr", "settings": {}, "training": {}}


def records(study: Study) -> list[TrialRecord]:
    return study.folder.journal().records()


def without_times(found: Iterable[TrialRecord]) -> list[TrialRecord]:
    return [replace(one, seconds=0.0) for one in found]


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, list[Progress]]:
    study = small_study(tmp_path_factory.mktemp("study") / "study", ["lr=1e-7..0.1:log", "dropout=0..0.7"], 7)
    heard: list[Progress] = []
    tune(study, engine=Here(), on_trial=heard.append)
    return study, heard


def test_a_study_has_its_trials_and_the_first_has_the_defaults(searched: tuple[Study, list[Progress]]) -> None:
    study, heard = searched
    found = records(study)
    assert [one.number for one in found] == list(range(7)) and all(one.is_finished for one in found)
    assert found[0].values == {"lr": 0.03, "dropout": 0.4} and found[0].state == "complete"
    assert len({str(one.values) for one in found}) == 7
    assert all(1e-7 <= one.values["lr"] <= 0.1 and 0 <= one.values["dropout"] <= 0.7 for one in found)
    for one in found:
        assert one.score == max(one.dev_scores)
        assert len(one.dev_scores) == 6 or one.state == "pruned"
    assert [(one.done, one.total) for one in heard] == [(i, 7) for i in range(1, 8)]
    assert heard[-1].best == best_of(found) and heard[-1].seconds_left == 0 < heard[0].seconds_left
    assert list(study.folder.checkpoints.glob("*")) == []


def test_the_best_settings_can_be_trained_with_and_reach_the_same_dev_score(
    searched: tuple[Study, list[Progress]],
) -> None:
    study, _ = searched
    best = best_of(records(study))
    assert best and best.number and best.score == max(one.score or 0 for one in records(study))
    content = tomllib.loads((study.folder.path / BEST).read_text())
    assert content["settings"]["lr"] == best.values["lr"] and content["settings"]["hidden"] == [8]
    config = TrainConfig.parse_all(content)
    assert config.output == str(study.folder.path / "best")
    train(plan_run(config))
    log = [json.loads(line) for line in (study.folder.path / "best" / "log.jsonl").read_text().splitlines()]
    assert [epoch["dev_accuracy"] for epoch in log] == pytest.approx(list(best.dev_scores), abs=0)


def test_the_table_of_trials(searched: tuple[Study, list[Progress]]) -> None:
    study, _ = searched
    with (study.folder.path / TRIALS).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["trial", "state", "dev_score", "lr", "dropout", "epochs", "seconds", "error"]
    for row, one in zip(rows, records(study), strict=True):
        assert (int(row["trial"]), row["state"], float(row["dev_score"])) == (one.number, one.state, one.score)
        assert (float(row["lr"]), int(row["epochs"])) == (one.values["lr"], len(one.dev_scores))


def test_the_journal_is_json_and_the_study_says_what_was_asked(searched: tuple[Study, list[Progress]]) -> None:
    study, _ = searched
    for line in (study.folder.path / JOURNAL).read_text().splitlines():
        json.loads(line)
    asked = json.loads((study.folder.path / STUDY).read_text())
    assert asked["search"] == {"lr": "1e-7..0.1:log", "dropout": "0..0.7"}
    assert asked["data"]["sha256"] == study.plan.corpus.content_hash() and asked["code"] == code_hash()
    assert asked["machine"]["multidomain"]


def test_a_study_that_was_stopped_goes_on_as_it_would_have(
    searched: tuple[Study, list[Progress]], tmp_path: Path
) -> None:
    whole, _ = searched
    study = replace(whole, plan=replace(whole.plan, config=_elsewhere(whole, tmp_path / "s")))
    for trials in (2, 5, 7):
        tune(replace(study, trials=trials), engine=Here())
    assert without_times(records(study)) == without_times(records(whole))
    tune(replace(study, trials=3), engine=Here())  # it has more already
    assert len(records(study)) == 7


def _elsewhere(study: Study, folder: Path) -> TrainConfig:
    return study.plan.config.model_copy(update={"output": str(folder)})


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_trial_that_was_cut_off_is_run_again_and_counts_once(cut: str, tmp_path: Path, monkeypatch: Any) -> None:
    study = small_study(tmp_path / "study", ["C=0.1..10:log"], 4, **LINEAR)

    def killed(journal: Any, number: int, result: Any) -> None:
        if cut == "after":
            end(journal, number, replace(result, score=None))  # all but the last line
            lines = (study.folder.path / JOURNAL).read_bytes().splitlines(keepends=True)
            (study.folder.path / JOURNAL).write_bytes(b"".join(lines[:-1]) + lines[-1][: len(lines[-1]) // 2])
        raise KeyboardInterrupt

    tune(replace(study, trials=2), engine=Here())
    journal = type(study.folder.journal())
    end = journal.end
    monkeypatch.setattr(journal, "end", killed)
    with pytest.raises(KeyboardInterrupt):
        tune(study, engine=Here())
    monkeypatch.undo()
    begun = [one.values for one in study.folder.journal_to_write().records()]
    assert [one.state for one in records(study)] == ["complete", "complete", "running"]
    tune(study, engine=Here())
    assert [one.state for one in records(study)] == ["complete"] * 4
    assert [one.values for one in records(study)][:3] == begun


@pytest.mark.parametrize("prune", [True, False])
def test_a_bad_trial_is_stopped_early_unless_told_otherwise(prune: bool, tmp_path: Path) -> None:
    study = small_study(tmp_path / "study", ["lr=0.02..0.04"], 5, prune=prune)
    tune(study, engine=Here())
    with study.folder.held():
        bad = Dimension("lr", "1e-9..2e-9", 1e-9, 2e-9)
        assert study.folder.journal_to_write().begin([bad], seed=0) == 5
    tune(replace(study, trials=6), engine=Here())
    *good, last = records(study)
    assert last.values["lr"] < 1e-8 and max(last.dev_scores) < min(max(one.dev_scores) for one in good)
    assert (last.state, len(last.dev_scores)) == (("pruned", 3) if prune else ("complete", 6))
    best = best_of(records(study))
    assert best in good


def test_training_that_diverges_is_a_failed_trial(tmp_path: Path) -> None:
    study = small_study(tmp_path / "study", ["lr=0.03,1e30", "k=1,5"], 5)
    tune(study, engine=Here())
    failed = [one for one in records(study) if one.values["lr"] == 1e30]
    assert failed and {one.state for one in failed} == {"failed"}
    assert all(one.score is None and one.error.startswith("Training has diverged: ") for one in failed)
    assert len(records(study)) == 4, "there are no more combinations"
    assert "Training has diverged" in (study.folder.path / TRIALS).read_text()


def test_a_study_without_any_completed_trial_says_why(tmp_path: Path) -> None:
    network = NETWORK["settings"] | {"lr": 1e30}
    study = small_study(tmp_path / "study", ["lr=1e30,1e31"], 2, settings=network)
    with pytest.raises(TrainingError, match=r"^No trial was completed. The first one: Training has diverged"):
        tune(study, engine=Here())
    assert [one.state for one in records(study)] == ["failed", "failed"]


def test_what_a_machine_lacks_is_no_failed_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trial is run again by the same command on a machine that has it."""
    study = small_study(tmp_path / "study", ["lr=0.03,0.04"], 2)
    with monkeypatch.context() as poor:
        poor.setattr("multidomain.training.memory._memory", lambda: 1)
        with pytest.raises(ConfigError, match="'man-nll' has all rows in memory"):
            tune(study, engine=Here())
    assert [one.state for one in records(study)] == ["running"]
    with pytest.raises(ConfigError, match="Device 'cuda:9' was asked for"):
        job = json.dumps(study.asked.config | {"device": "cuda:9"})
        run_trial(Job(job, False, study.plan.corpus.content_hash(), code_hash(), tmp_path), tmp_path, Trial(0, {}))
    tune(study, engine=Here())
    assert [one.state for one in records(study)] == ["complete", "complete"]


def test_a_worker_that_is_killed_each_time_is_a_failed_trial(tmp_path: Path) -> None:
    class Killed(Here):
        def map(self, function: Any, tasks: Any, *, ahead: int = 2) -> Any:
            assert ahead == 1, "each is made from the outcomes of all before it"
            for outcome in super().map(function, tasks):
                yield (
                    replace(outcome, value=None, error=WorkerError("Killed.")) if outcome.task.number == 1 else outcome
                )

    study = small_study(tmp_path / "study", ["C=0.1..10:log"], 3, **LINEAR)
    tune(study, engine=Killed())
    assert [(one.state, one.error) for one in records(study)] == [
        ("complete", ""),
        ("failed", "Killed."),
        ("complete", ""),
    ]


def test_after_an_error_no_trial_begins(tmp_path: Path) -> None:
    study = small_study(tmp_path / "study", ["C=0.1..10:log"], 3, **LINEAR)
    (tmp_path / "reviews.csv").write_text("text,label,domain,split\n")  # other data, since it was read here
    with pytest.raises(ValueError):
        tune(study, engine=Here())
    assert [one.state for one in records(study)] == ["running"]


def test_test_rows_decide_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    study = small_study(tmp_path / "study", ["C=0.1..10:log"], 2, **LINEAR)
    seen: list[Any] = []
    monkeypatch.setattr(
        "multidomain.tuning.trial.train_model",
        lambda corpus, split, *rest, **options: (seen.append(split), real(corpus, split, *rest, **options))[1],
    )
    from multidomain.training.train import train_model as real

    tune(study, engine=Here())
    assert len(seen) == 2 and all(len(split.test) == 0 and len(split.dev) for split in seen)


def test_other_settings_are_refused_and_overwrite_starts_anew(tmp_path: Path) -> None:
    study = small_study(tmp_path / "study", ["C=0.1..10:log"], 2, **LINEAR)
    tune(study, engine=Here())
    same = small_study(
        tmp_path / "study", ["C=0.1..10:log"], 2, **(LINEAR | {"training": {"max_epochs": 30}} if 0 else LINEAR)
    )
    tune(same, engine=Here())
    other = small_study(tmp_path / "study", ["C=0.1..20:log"], 2, prune=False, **(LINEAR | {"seed": 3}))
    with pytest.raises(ConfigError) as error:
        tune(other, engine=Here())
    lines = str(error.value).splitlines()
    assert lines[0] == f"{tmp_path / 'study'} holds a study of other settings:"
    assert "  - search.C: 0.1..10:log there, 0.1..20:log here" in lines
    assert "  - pruning: True there, False here" in lines and "  - split.seed: 0 there, 3 here" in lines
    assert lines[-1] == " Repeat its command, choose another folder, or start anew with overwrite=True."
    tune(other, engine=Here(), overwrite=True)
    assert len(records(other)) == 2 and other.folder.asked().config["seed"] == 3


def test_other_code_is_noted_and_a_smoke_study_is_replaced(tmp_path: Path, monkeypatch: Any) -> None:
    study = small_study(tmp_path / "study", ["C=0.1..10:log"], 2, **LINEAR)
    tune(replace(study, plan=replace(study.plan, smoke=True)), engine=Here())
    heard: list[str] = []
    tune(study, engine=Here(), on_note=lambda note: heard.append(note.kind))
    assert not study.folder.asked().smoke and "other-code" not in heard
    monkeypatch.setattr(running, "code_hash", lambda: "another")
    tune(study, engine=Here(), on_note=lambda note: heard.append(note.kind))
    assert heard[-1] == "other-code"
    monkeypatch.setattr("multidomain.runs.job.code_hash", lambda: "another")
    with pytest.raises(ConfigError, match=r"A worker has other code"):
        tune(replace(study, trials=3), engine=Here())


def test_a_damaged_journal_and_a_folder_that_is_held_or_holds_a_model(
    searched: tuple[Study, list[Progress]], tmp_path: Path
) -> None:
    study = small_study(tmp_path / "study", ["C=0.1..10:log"], 1, **LINEAR)
    tune(study, engine=Here())
    with study.folder.held(), pytest.raises(ConfigError, match="Another process is working on the study"):
        tune(study, engine=Here())
    journal = study.folder.path / JOURNAL
    journal.write_text("no json\n" + journal.read_text())
    with pytest.raises(ModelError, match=r"journal.jsonl is damaged .* start the study anew with overwrite=True"):
        tune(study, engine=Here())
    tune(study, engine=Here(), overwrite=True)
    plan = replace(study.plan, config=_elsewhere(study, tmp_path / "model"))
    train(plan)
    with pytest.raises(ConfigError, match="holds a model"):
        tune(replace(study, plan=plan), engine=Here())


def test_data_without_dev_labels_and_other_data_are_refused(tmp_path: Path) -> None:
    study = small_study(tmp_path / "study", ["C=0.1..10:log"], 1, **LINEAR)
    none = replace(study.plan, split=replace(study.plan.split, dev=study.plan.split.dev[:0]))
    with pytest.raises(ConfigError, match="There are no labelled dev rows"):
        running.plan_study(none, [], 1)
    config = json.dumps(study.asked.config)
    with pytest.raises(ConfigError, match="A worker reads other data under the name"):
        run_trial(Job(config, False, "other", code_hash(), tmp_path), tmp_path, Trial(0, {}))


def test_scores_to_beat() -> None:
    curves = [[0.5, 0.4, 0.9], [0.6], [0.1, 0.2], [0.2, 0.3]]
    assert scores_to_beat(curves) == pytest.approx((0.35, 0.4, 0.45))
    assert scores_to_beat(curves[1:]) == () == scores_to_beat([[]] * 5)
    assert np.all(np.diff(scores_to_beat(curves)) >= 0)
