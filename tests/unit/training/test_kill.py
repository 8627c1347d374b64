"""Training that is killed with SIGKILL, again and again, in a real process."""

from __future__ import annotations

import multiprocessing
import random
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from multidomain.data.named.registry import load_corpus
from multidomain.data.splits import holdout_split
from multidomain.training.settings import RunSettings
from multidomain.training.train import train_model

KILLS = 3
MOST_SAVES = 15  # of a process before it is killed


def train(weights: Path, checkpoint: Path | None) -> None:
    """Leave the weights, and beside them losses and accuracies to the last digit."""
    torch.set_num_threads(1)  # the same thread count gives the same bits
    corpus = load_corpus("demo").thinned(60)
    split = holdout_split(corpus).hide_labels(corpus, ["shoes"])
    settings = RunSettings(
        method="man-nll",
        method_settings={"hidden": (16,), "shared_size": 8, "private_size": 8, "lr": 1e-3},
        features={"ngrams": {"max_features": 500}},
        training={"max_epochs": 12, "patience": 12, "seed": 1, "checkpoint_seconds": 0},
    )
    trained = train_model(corpus, split, settings, device="cpu", checkpoint_path=checkpoint)
    save_file(trained.model.method.state_dict(), weights)
    epochs = [(epoch.log, epoch.dev_accuracy) for epoch in trained.history.epochs]
    weights.with_suffix(".txt").write_text(f"{epochs} {trained.history.best_epoch}", encoding="utf-8")


def start(weights: Path, checkpoint: Path | None) -> BaseProcess:
    """A process of its own, forked from one that has read the code already: reading it takes longest."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["multidomain.training.train", "pytest", "safetensors.torch"])
    process = context.Process(target=train, args=(weights, checkpoint))
    process.start()
    return process


def finish(process: BaseProcess) -> None:
    process.join(120)
    assert process.exitcode == 0


def kill_while_it_writes(process: BaseProcess, checkpoint: Path, saves: int, wait: float) -> None:
    """Kill when the process has written so many checkpoints of its own, and some milliseconds later."""
    deadline = time.monotonic() + 60
    last = stamp(checkpoint)
    while saves:
        assert process.is_alive(), "it ended before it could be killed: make the run longer"
        assert time.monotonic() < deadline, "it writes no checkpoints"
        now = stamp(checkpoint)
        saves -= now != last
        last = now
        time.sleep(0.0005)
    time.sleep(wait)
    process.kill()
    process.join()


def stamp(path: Path) -> tuple[int, int] | None:
    return (path.stat().st_ino, path.stat().st_mtime_ns) if path.exists() else None


@pytest.mark.skipif(
    "forkserver" not in multiprocessing.get_all_start_methods() or not hasattr(signal, "SIGKILL"),
    reason="needs processes that fork, and SIGKILL",
)
def test_killed_again_and_again_it_ends_with_the_same_bits(tmp_path: Path):
    seed = random.randrange(10**6)
    print(f"kill moments from seed {seed}")  # shown when the test fails
    moment = random.Random(seed)
    checkpoint, weights = tmp_path / "run.checkpoint", tmp_path / "killed.safetensors"
    for _ in range(KILLS):
        process = start(weights, checkpoint)
        kill_while_it_writes(process, checkpoint, moment.randint(1, MOST_SAVES), moment.uniform(0, 0.02))
        assert process.exitcode == -signal.SIGKILL
    left_behind = sorted(p.name for p in tmp_path.glob(".*.partial"))
    assert len(left_behind) <= KILLS
    finish(start(weights, checkpoint))
    whole = tmp_path / "whole.safetensors"
    train(whole, None)
    assert weights.with_suffix(".txt").read_text() == whole.with_suffix(".txt").read_text()
    expected, got = load_file(whole), load_file(weights)
    assert expected.keys() == got.keys()
    for name in expected:
        assert torch.equal(expected[name], got[name]), name
