"""Logged values that are read after several steps, as on accelerators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from multidomain.errors import TrainingError
from multidomain.methods.data import TrainingData
from multidomain.methods.history import History
from multidomain.nn import kernels
from multidomain.training import step_log
from multidomain.training.callbacks import Callback
from multidomain.training.checkpoint import Checkpoint
from multidomain.training.loop import Trainer
from multidomain.training.settings import TrainingSettings
from multidomain.training.step_log import StepLog

Make = Callable[..., Any]
SETTINGS = TrainingSettings(batch_size=2, max_epochs=3, patience=3, checkpoint_seconds=0)


@pytest.fixture
def data(training_data_of: Make) -> TrainingData:
    return training_data_of(labelled=(9, 0, 12), text=(9, 6, 12))  # six iterations in an epoch


@pytest.fixture
def four_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on an accelerator, in groups of four steps."""
    monkeypatch.setattr(step_log, "_STEPS_AT_A_TIME", 4)
    monkeypatch.setattr(kernels, "run_on", lambda device: False)


class Seen(Callback):
    """The means that are told after each step."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []
        self.means: list[float | None] = []

    def on_step_end(self, epoch: int, iteration: int, log: Any) -> None:
        self.steps.append((epoch, iteration))
        self.means.append(log.get("J_C"))


def history(made: History) -> list[dict[str, Any]]:
    return [{**asdict(epoch), "seconds": 0} for epoch in made.epochs]


@pytest.mark.usefixtures("four_at_a_time")
def test_values_come_together_and_in_order():
    log = StepLog(torch.device("cpu"))
    for step in range(3):
        log.add({"a": torch.tensor(float(step)), "b": 2.0 * step})
        assert not log.is_full
    log.add({"a": torch.tensor(3.0)})
    assert log.is_full and len(log) == 4
    assert log.read() == [{"a": 0.0, "b": 0.0}, {"a": 1.0, "b": 2.0}, {"a": 2.0, "b": 4.0}, {"a": 3.0}]
    assert log.read() == [] and len(log) == 0


def test_epochs_are_the_same(data: TrainingData, small_method: Make, request: pytest.FixtureRequest, tmp_path: Path):
    """Reading losses later changes no loss, and what a checkpoint holds is read."""
    one_by_one = Trainer(small_method(data.task, dropout=0.0), data, SETTINGS).run()
    request.getfixturevalue("four_at_a_time")
    seen, checkpoint = Seen(), Checkpoint(tmp_path / "c", "x")
    method = small_method(data.task, dropout=0.0)
    later = Trainer(method, data, SETTINGS, checkpoint=checkpoint, callbacks=[seen]).run()
    for ours, theirs in zip(history(later), history(one_by_one), strict=True):
        of_rows = ours["log"].pop("D_accuracy"), theirs["log"].pop("D_accuracy")  # rounding may turn a row
        assert ours["log"] == pytest.approx(theirs["log"], rel=0.01) and of_rows[0] == pytest.approx(
            of_rows[1], abs=0.1
        )
    assert seen.steps == [(epoch, i) for epoch in (1, 2, 3) for i in range(1, 7)]
    assert [mean is None for mean in seen.means[:6]] == [True, True, True, False, False, False]
    assert seen.means[3] == seen.means[5]  # as of the last time that values were read


@pytest.mark.usefixtures("four_at_a_time")
def test_the_step_that_diverged_is_named(data: TrainingData, small_method: Make, monkeypatch: pytest.MonkeyPatch):
    method = small_method(data.task)
    step = method.step

    def breaks(X: Any, U: Any, epoch: int, i: int) -> dict[str, torch.Tensor]:
        log = step(X, U, epoch, i)
        return log if (epoch, i) != (1, 1) else {**log, "J_C": torch.tensor(torch.nan)}

    monkeypatch.setattr(method, "step", breaks)
    with pytest.raises(TrainingError, match=r"J_C is not finite in iteration 2 of epoch 2\."):
        Trainer(method, data, SETTINGS).run()
