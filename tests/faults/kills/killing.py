"""Runs that kill themselves at one of their operations on files, and what must be there afterwards."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from multidomain.data.named.registry import load_corpus
from multidomain.data.splits import split_by
from multidomain.model.model import Model
from multidomain.runs.config import TrainConfig
from multidomain.runs.folder import RunFolder
from multidomain.runs.plan import Plan
from multidomain.runs.train import train

NETWORK = {"hidden": [4], "shared_size": 4, "private_size": 4}
SHORT = {"max_epochs": 2, "patience": 2, "batch_size": 16, "checkpoint_seconds": 0}
SMALL = {"ngrams": {"max_features": 200, "ngram_range": [1, 1]}}
KINDS: dict[str, dict[str, Any]] = {
    "sped": {"method": "sped", "settings": {"C": 1.0, "denoised": 5}},
    "man-nll": {"method": "man-nll", "settings": NETWORK, "training": SHORT, "features": SMALL},
    "cnn": {
        "method": "cnn",
        "settings": {"filters": 4, "kernel_sizes": [2], "dimension": 4, "shared_size": 4},
        "training": SHORT,
        "features": {"sequences": {"vectors": "random", "max_length": 12}},
    },
    "ensemble": {
        "method": "ensemble",
        "settings": {"members": ["lr", {"method": "man-nll", "settings": NETWORK}]},
        "training": SHORT,
        "features": SMALL,
    },
    "auto": {"method": "auto", "auto": {"methods": ["lr", "fa-lr"], "folds": 2, "budget": 1000}},
}
_EVENTS = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "open")
_IMPORTED_LATE = ("torch._dynamo", "multidomain.methods.dual_solver", "multidomain.kernels.compiled", "sklearn.svm")
_OF_NO_INTEREST = ("seconds", "machine")


@dataclass(frozen=True)
class Trial:
    """A run in a folder.

    Attributes
    ----------
    seed
        Of the run; runs of different seeds have different weights, metrics and settings.
    kill_at
        The number, from 1, of the operation on a file of the folder before which the process is killed; 0: none.
    """

    kind: str
    folder: Path
    seed: int = 1
    kill_at: int = 0
    resume: bool = False
    overwrite: bool = False

    def run(self) -> None:
        """Train in this process, and leave the number of operations beside the folder."""
        torch.set_num_threads(1)
        data = {"data": "demo", "output": str(self.folder), "seed": self.seed}
        config = TrainConfig.parse_all({**data, **KINDS[self.kind]})
        corpus = load_corpus("demo").thinned(12)
        plan = Plan(config, corpus, split_by(corpus, config.split_settings))
        operations = _count_operations(self.folder, self.kill_at)
        train(plan, resume=self.resume, overwrite=self.overwrite)
        _counted(self.folder).write_text(str(operations[0]))

    def start(self) -> BaseProcess:
        """Start it in a process that is forked from one that has read the code already."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["killing", *_IMPORTED_LATE])
        process = context.Process(target=self.run)
        process.start()
        return process

    def end(self) -> int | None:
        """Run it in a process of its own, and return how that has ended."""
        process = self.start()
        process.join(240)
        assert process.exitcode is not None, "it hangs"
        return process.exitcode

    def operations(self) -> int:
        """Run it to its end, and return how many operations on files that took."""
        assert self.end() == 0
        return int(_counted(self.folder).read_text())


def _counted(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.operations")


def _count_operations(folder: Path, kill_at: int) -> list[int]:
    """Count operations on files of a folder from now on, and kill the process before one of them."""
    count, inside = [0], str(folder)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _EVENTS and str(arguments[0]).startswith(inside):
            count[0] += 1
            if count[0] == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    return count


def content(folder: Path) -> dict[str, Any]:
    """Return what the files of a finished run say, except how long it took."""
    return {path.name: _said(path) for path in sorted(folder.iterdir()) if path.name != ".lock"}


def _said(path: Path) -> Any:
    if path.suffix == ".json":
        return _without_times(json.loads(path.read_text(encoding="utf-8")))
    if path.suffix == ".jsonl":
        return [_without_times(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    if path.suffix == ".toml":
        return [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("output")]
    return path.read_bytes()


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_times(v) for name, v in value.items() if name not in _OF_NO_INTEREST}
    return [_without_times(v) for v in value] if isinstance(value, list) else value


def check_kill(kind: str, over_old_run: bool, kill_at: int, whole: Path, old: Path, place: Path) -> None:
    """Kill a run at an operation, look at the folder, let it go on, and compare it with a run that was not killed.

    Parameters
    ----------
    whole, old
        Folders of a run of seed 1 that was not killed, and of one of seed 2 that the killed run replaces.
    place
        Where to run.
    """
    folder = place / "run"
    shutil.rmtree(folder, ignore_errors=True)
    if over_old_run:
        shutil.copytree(old, folder)
    killed = Trial(kind, folder, kill_at=kill_at, overwrite=over_old_run)
    assert killed.end() == -signal.SIGKILL, "it ended before it could be killed"
    for_reading = place / "read"  # what a reader finds, apart from what the next run does
    shutil.rmtree(for_reading, ignore_errors=True)
    shutil.copytree(folder, for_reading)
    state = RunFolder(for_reading)
    if over_old_run or state.holds_model:
        _check_one_of(for_reading, [old] if over_old_run and state.is_under_way else [whole, old])
    is_of_old_run = over_old_run and not state.is_under_way and _seed(for_reading) == 2
    again = Trial(kind, folder, resume=not is_of_old_run, overwrite=is_of_old_run)
    assert again.end() == 0
    assert content(folder) == content(whole)


def _seed(folder: Path) -> int:
    finished = RunFolder(folder).metrics()
    assert finished is not None
    return finished["settings"]["training"]["seed"]


def _check_one_of(folder: Path, runs: list[Path]) -> None:
    """Check that model and metrics are those of one of several finished runs, both of the same."""
    texts, domains = ["a delightful novel", "glitchy and useless"], ["books", "shoes"]
    found = Model.load(folder).predict_proba(texts, domains)
    metrics = _said(folder / "metrics.json")
    for run in runs:
        if metrics == _said(run / "metrics.json"):
            assert (found == Model.load(run).predict_proba(texts, domains)).all()
            return
    raise AssertionError("the metrics are of another run")


def references(kind: str, place: Path) -> tuple[Path, Path, int, int]:
    """Run a kind of run, and one to replace; return their folders, and the operations in a new and in an old folder."""
    whole, old, over = place / f"{kind}-whole", place / f"{kind}-old", place / f"{kind}-over"
    new = Trial(kind, whole).operations()
    assert Trial(kind, old, seed=2).end() == 0
    shutil.copytree(old, over)
    replacing = Trial(kind, over, overwrite=True).operations()
    assert content(over) == content(whole)
    return whole, old, new, replacing


def moments(operations: int, wanted: int) -> Iterator[int]:
    """Yield numbers of operations, the last ones (the end of the run) and some spread over all."""
    last = set(range(max(1, operations - wanted // 2 + 1), operations + 1))
    spread = {1 + i * operations // wanted for i in range(wanted)}
    yield from sorted(sorted(spread | last, reverse=True)[:wanted])
