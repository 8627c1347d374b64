"""Showing and recording the progress of training."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from multidomain.methods.history import Epoch
from multidomain.metrics import Metric
from multidomain.training.callbacks import Callback


def progress_on(console: Console) -> Callback:
    """Return a progress bar for a terminal and plain lines for anything else."""
    return ProgressBar(console) if console.is_terminal else PlainProgress(console)


class ProgressBar(Callback):
    """A bar over all iterations, with the losses, D's accuracy and the dev score."""

    def __init__(self, console: Console):
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[log]}"),
            TextColumn("{task.fields[dev]}"),
            TimeRemainingColumn(),
            TextColumn("left at most"),
            console=console,
            transient=True,
        )
        self._best: Epoch | None = None
        self._of_preparation: dict[str, TaskID] = {}

    def on_train_begin(self, max_epochs: int, iterations: int, past: list[Epoch]) -> None:
        self._max_epochs, self._iterations = max_epochs, iterations
        for earlier in self._bar.task_ids:  # preparation, or another member of an ensemble
            self._bar.remove_task(earlier)
        self._of_preparation, self._best = {}, None
        self._task = self._new_task(f"epoch {len(past) + 1}/{max_epochs}", max_epochs * iterations)
        self._bar.update(self._task, completed=len(past) * iterations)

    def on_step_end(self, epoch: int, iteration: int, log: Mapping[str, float]) -> None:
        done = (epoch - 1) * self._iterations + iteration
        about = f"epoch {epoch}/{self._max_epochs}"
        self._bar.update(self._task, completed=done, description=about, log=_described(log))

    def on_epoch_end(self, epoch: Epoch, is_best: bool) -> None:
        self._best = epoch if is_best else self._best
        if self._best and epoch.dev_score is not None and self._best.dev_score is not None:
            dev = f"dev {epoch.dev_score:.1%} (best {self._best.dev_score:.1%})"
            self._bar.update(self._task, dev=dev)

    def on_prepare(self, what: str, done: int, of: int) -> None:
        if what not in self._of_preparation:
            self._of_preparation[what] = self._new_task(what, of)
        self._bar.start()  # it may have been stopped since, and a stage of the same name begun
        self._bar.update(self._of_preparation[what], total=of, completed=done)

    def _new_task(self, about: str, total: int) -> TaskID:
        self._bar.start()
        return self._bar.add_task(about, total=total, log="", dev="")

    def on_candidate(self, values: Mapping[str, Any], dev_score: float | None) -> None:
        self._bar.console.print(_candidate(values, dev_score), highlight=False, soft_wrap=True)

    def on_train_end(self) -> None:
        self._bar.stop()


class _Stage(NamedTuple):
    """A preparation, how much of it was done when it was first told of, and when that was."""

    what: str
    done: int
    since: float


class PlainProgress(Callback):
    """One line for each epoch, for logs and pipes."""

    def __init__(self, console: Console):
        self._console = console
        self._stage = _Stage("", 0, 0.0)

    def on_train_begin(self, max_epochs: int, iterations: int, past: list[Epoch]) -> None:
        self._max_epochs, self._done_before, self._began = max_epochs, len(past), time.monotonic()
        if past:
            self._console.print(f"resuming after epoch {len(past)}", highlight=False)

    def on_epoch_end(self, epoch: Epoch, is_best: bool) -> None:
        dev = "" if epoch.dev_score is None else f"  dev {epoch.dev_score:.1%}{' *' if is_best else '  '}"
        per_epoch = (time.monotonic() - self._began) / (epoch.epoch - self._done_before)
        left = timedelta(seconds=round(per_epoch * (self._max_epochs - epoch.epoch)))
        line = f"epoch {epoch.epoch}/{self._max_epochs}  {_described(epoch.log)}{dev}  at most {left} left"
        self._console.print(line, highlight=False, soft_wrap=True)

    def on_prepare(self, what: str, done: int, of: int) -> None:
        now, left = time.monotonic(), ""
        if what != self._stage.what or done < self._stage.done:
            self._stage = _Stage(what, done, now)
        elif done > self._stage.done:
            per_step = (now - self._stage.since) / (done - self._stage.done)
            left = f"  at most {timedelta(seconds=round(per_step * max(of - done, 0)))} left"
        self._console.print(f"{what}: {done:,} of {of:,}{left}", highlight=False)

    def on_candidate(self, values: Mapping[str, Any], dev_score: float | None) -> None:
        self._console.print(_candidate(values, dev_score), highlight=False, soft_wrap=True)


class LogFile(Callback):
    """JSON lines, one for each epoch or set of hyperparameters tried; each epoch once, even after a resume."""

    def __init__(self, path: Path, metric: Metric = "accuracy"):
        self._path = path
        self._score = "dev_accuracy" if metric == "accuracy" else "dev_score"
        self._is_new = True

    def on_train_begin(self, max_epochs: int, iterations: int, past: list[Epoch]) -> None:
        self._write([asdict(epoch) for epoch in past])

    def on_epoch_end(self, epoch: Epoch, is_best: bool) -> None:
        self._write([asdict(epoch)])

    def on_candidate(self, values: Mapping[str, Any], dev_score: float | None) -> None:
        self._write([{"tried": dict(values), self._score: dev_score}])

    def _write(self, lines: Sequence[Mapping[str, Any]]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("w" if self._is_new else "a", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        self._is_new = False


def _candidate(values: Mapping[str, Any], dev_score: float | None) -> str:
    shown = ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in values.items()
    )
    return f"tried {shown}" + ("" if dev_score is None else f": dev {dev_score:.1%}")


def _described(log: Mapping[str, float]) -> str:
    return "  ".join(
        f"D accuracy {value:.0%}" if name == "D_accuracy" else f"{name} {value:.3f}" for name, value in log.items()
    )
