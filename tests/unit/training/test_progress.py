"""What is shown and recorded while training goes on."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from multidomain.methods.history import Epoch
from multidomain.training.progress import LogFile, PlainProgress, ProgressBar, progress_on


def epoch(number: int, dev: float | None = 0.875) -> Epoch:
    by_domain = {} if dev is None else {"a": dev}
    return Epoch(number, {"J_C": 1.23456, "D_accuracy": 0.254}, dev, by_domain, seconds=2.0)


def terminal(is_terminal: bool) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, force_terminal=is_terminal, width=120, color_system=None), out


def test_a_bar_for_a_terminal_and_lines_for_anything_else():
    assert isinstance(progress_on(terminal(True)[0]), ProgressBar)
    assert isinstance(progress_on(terminal(False)[0]), PlainProgress)


def test_a_bar_comes_back_for_another_stage_of_the_same_name():
    console, out = terminal(True)
    bar = ProgressBar(console)
    for total in (10, 20):
        bar.on_prepare("tokens", total // 2, total)
        bar.on_train_end()
        shown = out.getvalue()
        out.truncate(0)
        assert "tokens" in shown and shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1


def test_plain_lines(monkeypatch: pytest.MonkeyPatch):
    clock = [0.0]
    monkeypatch.setattr("multidomain.training.progress.time.monotonic", lambda: clock[0])
    console, out = terminal(False)
    progress = PlainProgress(console)
    progress.on_train_begin(max_epochs=4, iterations=10, past=[])
    for number, is_best in ((1, True), (2, False)):
        clock[0] += 60
        progress.on_step_end(number, 10, {})
        progress.on_epoch_end(epoch(number), is_best)
    assert out.getvalue().splitlines() == [
        "epoch 1/4  J_C 1.235  D accuracy 25%  dev 87.5% *  at most 0:03:00 left",
        "epoch 2/4  J_C 1.235  D accuracy 25%  dev 87.5%    at most 0:02:00 left",
    ]


def test_plain_lines_without_dev_and_after_a_resume(monkeypatch: pytest.MonkeyPatch):
    """Time left counts only what this process has done."""
    clock = [0.0]
    monkeypatch.setattr("multidomain.training.progress.time.monotonic", lambda: clock[0])
    console, out = terminal(False)
    progress = PlainProgress(console)
    progress.on_train_begin(max_epochs=4, iterations=10, past=[epoch(1), epoch(2)])
    clock[0] = 60
    progress.on_epoch_end(epoch(3, dev=None), True)
    assert out.getvalue().splitlines() == [
        "resuming after epoch 2",
        "epoch 3/4  J_C 1.235  D accuracy 25%  at most 0:01:00 left",
    ]


def test_stages_show_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch):
    console, out = terminal(False)
    progress = PlainProgress(console)
    for second, what, done in ((0, "tokens", 10), (20, "tokens", 20), (30, "passes", 150), (40, "passes", 20)):
        monkeypatch.setattr("time.monotonic", lambda now=second: float(now))
        progress.on_prepare(what, done, 200)
    assert out.getvalue().splitlines() == [
        "tokens: 10 of 200",
        "tokens: 20 of 200  at most 0:06:00 left",
        "passes: 150 of 200",
        "passes: 20 of 200",  # of the next candidate
    ]


def test_bar():
    console, out = terminal(True)
    bar = ProgressBar(console)
    bar.on_train_begin(max_epochs=3, iterations=2, past=[epoch(1)])
    assert bar._bar.tasks[0].completed == 2 and bar._bar.tasks[0].total == 6
    bar.on_step_end(2, 1, {"J_C": 0.5, "D_accuracy": 0.25})
    assert bar._bar.tasks[0].completed == 3
    assert bar._bar.tasks[0].fields["log"] == "J_C 0.500  D accuracy 25%"
    bar.on_epoch_end(epoch(2, 0.9), is_best=True)
    bar.on_epoch_end(epoch(3, 0.8), is_best=False)
    assert bar._bar.tasks[0].fields["dev"] == "dev 80.0% (best 90.0%)"
    bar.on_train_end()
    assert bar._bar.live.is_started is False
    assert "epoch 2/3" in out.getvalue()


def test_what_is_shown_is_the_score_that_selects():
    console, out = terminal(False)
    progress = PlainProgress(console)
    progress.on_train_begin(max_epochs=1, iterations=10, past=[])
    progress.on_epoch_end(Epoch(1, {}, 0.875, {"a": 0.875}, 2.0, dev_score=0.5), True)
    assert "dev 50.0% *" in out.getvalue()
    bar = ProgressBar(terminal(True)[0])
    bar.on_train_begin(max_epochs=1, iterations=2, past=[])
    bar.on_epoch_end(Epoch(1, {}, 0.875, {"a": 0.875}, 2.0, dev_score=0.5), True)
    assert bar._bar.tasks[0].fields["dev"] == "dev 50.0% (best 50.0%)"
    bar.on_train_end()


@pytest.mark.parametrize(
    ("metric", "name"), [("accuracy", "dev_accuracy"), ("macro-f1", "dev_score"), ("worst-domain", "dev_score")]
)
def test_candidates_in_the_log_say_accuracy_only_where_it_is(metric: Any, name: str, tmp_path: Path):
    log = LogFile(tmp_path / "log.jsonl", metric)
    log.on_candidate({"C": 1.0}, 0.75)
    assert json.loads((tmp_path / "log.jsonl").read_text(encoding="utf-8")) == {"tried": {"C": 1.0}, name: 0.75}


def test_log_file_has_each_epoch_once(tmp_path: Path):
    """Also after a resume from a checkpoint that is older than the last line."""
    path = tmp_path / "new folder" / "log.jsonl"
    log = LogFile(path)
    log.on_train_begin(3, 10, [])
    log.on_epoch_end(epoch(1), True)
    log.on_epoch_end(epoch(2), False)
    again = LogFile(path)
    again.on_train_begin(3, 10, [epoch(1)])
    again.on_epoch_end(epoch(2), False)
    again.on_epoch_end(epoch(3), True)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert lines == [asdict(epoch(number)) for number in (1, 2, 3)]
