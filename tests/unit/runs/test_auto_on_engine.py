"""`auto` on an engine: what it chooses is what one process chooses, and the budget means the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from multidomain.engines.base import ENGINES, Engine, Outcome
from multidomain.errors import ConfigError, TrainingError
from multidomain.methods.registry import method_entry, register
from multidomain.runs.auto import choose_method
from multidomain.runs.choice import AutoChoice
from multidomain.runs.config import TrainConfig
from multidomain.runs.fold_tasks import Elsewhere, FoldResult, FoldTask, _folds
from multidomain.runs.job import Job
from multidomain.runs.plan import Plan, plan_run

Run = Callable[..., tuple[int, str, str]]

AUTO = {"methods": ("lr", "fa-lr", "mlp"), "folds": 3}
SMALL = {"ngrams": {"max_features": 300, "ngram_range": (1, 2)}}


class Scripted(Engine):
    """Runs tasks in this process in an order of its own; they may end as a script says."""

    def __init__(self, script: Callable[[FoldTask], FoldResult] | None = None, workers: int = 2):
        super().__init__(None, workers)
        self._script = script
        self.tasks: list[FoldTask] = []

    def __exit__(self, *exception: object) -> None:
        pass

    def map(self, function: Callable[[Any], Any], tasks: Iterable[Any], *, ahead: int = 2) -> Iterator[Outcome[Any]]:
        assert ahead == 1
        under_way: list[FoldTask] = []
        for task in tasks:
            self.tasks.append(task)
            under_way.append(task)
            if len(under_way) == self.workers:
                yield self._ended(function, under_way.pop())  # the last first
        yield from (self._ended(function, task) for task in under_way)

    def _ended(self, function: Callable[[Any], Any], task: FoldTask) -> Outcome[Any]:
        return Outcome(task, (self._script or function)(task))


def plan_of(folder: Path, unlabelled: Sequence[str] = (), **auto: Any) -> Plan:
    given = {
        "split": {"unlabelled": unlabelled},
        "data": "demo",
        "output": str(folder),
        "method": "auto",
        "features": SMALL,
        "auto": AUTO | auto,
    }
    return plan_run(TrainConfig.parse_all({**given, "training": {"max_epochs": 2}}), smoke=True)


def chosen(plan: Plan, engine: Engine | None = None) -> AutoChoice:
    elsewhere = Elsewhere(engine, Job.of(plan)) if engine else None
    return choose_method(plan.corpus, plan.split, plan.settings, plan.config.auto, elsewhere=elsewhere)


def without_times(choice: AutoChoice) -> dict[str, Any]:
    return asdict(replace(choice, candidates=tuple(replace(one, seconds=0.0) for one in choice.candidates)))


@pytest.mark.parametrize("hidden", [[], ["shoes"]])
def test_the_choice_is_that_of_one_process(hidden: list[str], tmp_path: Path):
    plan = plan_of(tmp_path, hidden)
    assert without_times(chosen(plan, Scripted())) == without_times(chosen(plan))


def test_the_command_on_two_processes_writes_what_one_does(tmp_path: Path, run: Run):
    command = ["train", "demo", "--method", "auto", "--methods", "lr,fa-lr", "--folds", "2", "--smoke"]
    kept = {}
    for name, options in (("one", ()), ("two", ("--engine", "local", "--workers", "2"))):
        code, out, err = run(*command, "-o", tmp_path / name, *options)
        assert code == 0, err
        assert "auto chooses" in out and err.count("auto: lr") == 1
        choice = json.loads((tmp_path / name / "choice.json").read_text())
        for one in choice["candidates"]:
            del one["seconds"]
        kept[name] = choice, json.loads((tmp_path / name / "metrics.json").read_text())["result"]["test"]
    assert kept["one"] == kept["two"]


def scripted(seconds: dict[str, float], plan: Plan, diverging: Sequence[str] = ()) -> Callable[[FoldTask], FoldResult]:
    """Methods take so many seconds for a fold, and stop when their time is up."""

    def ended(task: FoldTask) -> FoldResult:
        takes, name = seconds[task.settings.method], task.settings.method
        if name in diverging:
            return FoldResult(takes, divergence=TrainingError(f"{name} has diverged."))
        if takes > task.seconds:
            return FoldResult(task.seconds)
        return FoldResult(takes, plan.corpus.labels[_folds(plan)[task.fold].test].astype(str))

    return ended


def test_a_method_out_of_time_is_dropped_and_no_more_of_its_folds_begin(tmp_path: Path):
    plan = plan_of(tmp_path, budget=1)
    engine = Scripted(scripted({"lr": 1000, "fa-lr": 61, "mlp": 1}, plan))
    choice = chosen(plan, engine)
    assert [one.accuracy for one in choice.candidates] == [1, None, 1] and choice.method == "lr"
    assert sum(task.settings.method == "fa-lr" for task in engine.tasks) <= 2
    assert engine.tasks[0].seconds == np.inf and all(t.seconds <= 60 for t in engine.tasks if t.number)


def test_folds_that_would_end_too_late_do_not_begin(tmp_path: Path):
    plan = plan_of(tmp_path, budget=1)
    engine = Scripted(scripted({"lr": 1, "fa-lr": 40, "mlp": 1}, plan), workers=1)
    choice = chosen(plan, engine)
    assert [one.accuracy for one in choice.candidates] == [1, None, 1]
    assert sum(task.settings.method == "fa-lr" for task in engine.tasks) == 1, "the first fold shows it"


def test_a_method_out_of_time_is_tried_without_a_limit_if_no_other_has_ended(tmp_path: Path):
    plan = plan_of(tmp_path, budget=1)
    engine = Scripted(scripted({"lr": 1, "fa-lr": 100, "mlp": 100}, plan, diverging=["lr"]))
    choice = chosen(plan, engine)
    assert choice.method == "fa-lr"
    assert [(one.diverged, one.accuracy) for one in choice.candidates] == [(True, None), (False, 1), (False, None)]


def test_if_all_diverge_that_is_the_error(tmp_path: Path):
    plan = plan_of(tmp_path)
    with pytest.raises(TrainingError, match="lr has diverged"):
        chosen(plan, Scripted(scripted(dict.fromkeys(AUTO["methods"], 1), plan, diverging=AUTO["methods"])))


def test_a_real_method_that_diverges_in_a_worker_is_left_out(tmp_path: Path):
    @register("diverging", "lr", paper="none")
    class Diverging(method_entry("lr").method):  # type: ignore[misc]
        def fit(self, data: object, context: object) -> NoReturn:
            raise TrainingError("Training has diverged.", "Lower the learning rate.")

    choice = chosen(plan_of(tmp_path, methods=("diverging", "lr")), Scripted())
    assert choice.method == "lr" and choice.candidates[0].diverged


def test_a_method_stops_in_the_worker_when_its_time_is_up(tmp_path: Path):
    choice = chosen(plan_of(tmp_path, budget=1e-6), Scripted())
    assert [one.accuracy is None for one in choice.candidates] == [False, True, True]


def test_other_errors_of_workers_end_the_comparison(tmp_path: Path):
    plan = plan_of(tmp_path)
    job = replace(Job.of(plan), code="other")
    with (
        pytest.raises(ConfigError, match="A worker has other code of this package"),
        ENGINES.find("local")(None, 1) as engine,
    ):
        choose_method(plan.corpus, plan.split, plan.settings, plan.config.auto, elsewhere=Elsewhere(engine, job))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--workers", "2"), "'workers' has no effect: a model is trained in one process; engines are for"),
        (("--engine", "dask", "--workers", "2"), "'engine', 'workers' have no effect"),
        (("--method", "auto", "--address", "127.0.0.1:1"), "The engine 'local' has no address"),
        (("--method", "auto", "--engine", "dusk"), "There is no engine 'dusk'. Did you mean 'dask'"),
    ],
)
def test_engines_are_for_comparisons(options: Sequence[str], said: str, tmp_path: Path, run: Run):
    code, _, err = run("train", "demo", "-o", tmp_path / "m", *options)
    assert code == 2 and said in err
