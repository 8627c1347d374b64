"""Training that is killed with SIGKILL, again and again, in a real process."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

SCRIPT = """
    import sys
    from pathlib import Path
    from safetensors.torch import save_file
    from multidomain.data.named.registry import load_corpus
    from multidomain.data.splits import holdout_split
    from multidomain.training.train import RunSettings, train_model

    weights, checkpoint = sys.argv[1:]
    corpus = load_corpus("demo")
    split = holdout_split(corpus).hide_labels(corpus, ["shoes"])
    settings = RunSettings(
        method="man-nll",
        method_settings={"hidden": (16,), "shared_size": 8, "private_size": 8, "lr": 1e-3},
        features={"max_features": 500},
        training={"max_epochs": 3, "seed": 1, "checkpoint_seconds": 0},
    )
    path = Path(checkpoint) if checkpoint else None
    trained = train_model(corpus, split, settings, device="cpu", checkpoint_path=path)
    save_file(trained.model.method.state_dict(), weights)
    print([(epoch.log, epoch.dev_accuracy) for epoch in trained.history.epochs], trained.history.best_epoch)
"""
KILLS = 3


def start(weights: Path, checkpoint: Path | str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(weights), str(checkpoint)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # the same thread count gives the same bits
    )


def finish(process: subprocess.Popen[str]) -> str:
    out, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    return out


def kill_while_it_writes(process: subprocess.Popen[str], checkpoint: Path, saves: int, wait: float) -> None:
    """Kill when the process has written so many checkpoints of its own, and some milliseconds later."""
    deadline = time.monotonic() + 60
    last = stamp(checkpoint)
    while saves:
        assert process.poll() is None, "it ended before it could be killed: make the run longer"
        assert time.monotonic() < deadline, "it writes no checkpoints"
        now = stamp(checkpoint)
        saves -= now != last
        last = now
        time.sleep(0.0005)
    time.sleep(wait)
    process.send_signal(signal.SIGKILL)
    process.wait()


def stamp(path: Path) -> tuple[int, int] | None:
    return (path.stat().st_ino, path.stat().st_mtime_ns) if path.exists() else None


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_killed_again_and_again_it_ends_with_the_same_bits(tmp_path: Path):
    whole = start(tmp_path / "whole.safetensors", "")
    seed = random.randrange(10**6)
    print(f"kill moments from seed {seed}")  # shown when the test fails
    moment = random.Random(seed)
    checkpoint, weights = tmp_path / "run.checkpoint", tmp_path / "killed.safetensors"
    killed = 0
    for _ in range(KILLS):
        process = start(weights, checkpoint)
        kill_while_it_writes(process, checkpoint, moment.randint(1, 15), moment.uniform(0, 0.02))
        killed += process.returncode == -signal.SIGKILL
    assert killed == KILLS
    left_behind = sorted(p.name for p in tmp_path.glob(".*.partial"))
    assert len(left_behind) <= killed
    assert finish(start(weights, checkpoint)) == finish(whole)  # losses and accuracies to the last digit
    expected, got = load_file(tmp_path / "whole.safetensors"), load_file(weights)
    assert expected.keys() == got.keys()
    for name in expected:
        assert torch.equal(expected[name], got[name]), name
