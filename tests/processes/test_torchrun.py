"""Two real processes, connected by torchrun, that train one network."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import distributed
from train_together import CASES, run_all

pytestmark = pytest.mark.skipif(not distributed.is_available(), reason="this torch has no distributed package")

SCRIPT = Path(__file__).with_name("train_together.py")
PROCESSES = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
TINY = [
    *("train", "demo", "--method", "man-nll", "--unlabelled", "shoes", "--max-features", "500"),
    *("--set", "hidden=16", "--set", "shared_size=8", "--set", "private_size=8", "--set", "lr=0.001"),
    *("--max-epochs", "5", "--patience", "5", "--checkpoint-seconds", "0"),
]


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """What one process and what two have made of all cases."""
    one, two = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    subprocess.run([*PROCESSES, SCRIPT, two], env=environment(), check=True, timeout=250)
    run_all(one)
    return one, two


@pytest.mark.parametrize("case", CASES)
def test_two_processes_compute_what_one_does(case: str, folders: tuple[Path, Path]):
    """In double precision, without dropout: all that is left is rounding."""
    one, two = (json.loads((folder / f"{case} 0.json").read_text()) for folder in folders)
    assert one["dev"] == two["dev"] and one["best"] == two["best"]
    for ours, theirs in zip(two["epochs"], one["epochs"], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-7, abs=1e-7)
    alone, together = (load_file(folder / f"{case} 0.safetensors") for folder in folders)
    for name in alone:
        torch.testing.assert_close(together[name], alone[name], rtol=1e-6, atol=1e-7, msg=name)


@pytest.mark.parametrize("case", [*CASES, "dropout"])
def test_both_processes_have_the_same_bits(case: str, folders: tuple[Path, Path]):
    """Also with dropout, where each draws its own random numbers."""
    first, second = (load_file(folders[1] / f"{case} {rank}.safetensors") for rank in (0, 1))
    assert all(torch.equal(first[name], second[name]) for name in first)


def start(folder: Path, *options: str, program: Sequence[str] = ("-m", "multidomain")) -> subprocess.Popen[str]:
    command = [*PROCESSES, *program, *TINY, "-o", str(folder), *options]
    return subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def in_the_second_epoch(folder: Path, running: subprocess.Popen[str]) -> None:
    log, deadline = folder / "log.jsonl", time.monotonic() + 120
    while not (log.exists() and log.read_text() and (folder / "checkpoint.safetensors").exists()):
        assert running.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)


def process(folder: Path, rank: int) -> int:
    """The number of the operating system for one of the processes that train in a folder."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            variables, command = (path / "environ").read_bytes(), (path / "cmdline").read_bytes()
        except OSError:
            continue
        if f"\0RANK={rank}\0".encode() in variables and str(folder).encode() in command:
            return int(path.name)
    raise AssertionError("there is no such process")


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(next(folder.glob("weights-*.safetensors")))


@pytest.mark.processes
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc to tell the processes apart")
def test_stopped_and_killed_it_ends_with_the_same_bits(tmp_path: Path):
    """A signal to one stops both with a checkpoint; SIGKILL to one ends both, and the last checkpoint stays."""
    whole, folder = tmp_path / "whole", tmp_path / "stopped"
    said = start(whole).communicate(timeout=200)[0]
    assert said.count("epoch 5/5") == 1 and said.count("next: multidomain report") == 1

    running = start(folder)
    in_the_second_epoch(folder, running)
    os.kill(process(folder, 1), signal.SIGTERM)
    said = running.communicate(timeout=120)[0]
    assert running.returncode == 1  # torchrun's, whatever a process ends with
    assert said.count("stopped by SIGTERM. Resume with: torchrun --nproc-per-node 2 -m multidomain train demo") == 1

    for rank in (1, 0):
        before = (folder / "checkpoint.safetensors").stat().st_mtime_ns
        running = start(folder, "--resume")
        while (folder / "checkpoint.safetensors").stat().st_mtime_ns == before:
            assert running.poll() is None
            time.sleep(0.02)
        os.kill(process(folder, rank), signal.SIGKILL)
        assert running.wait(120) and not (folder / "model.json").exists()

    said = start(folder, "--resume").communicate(timeout=200)[0]
    assert said.count("resuming after epoch") <= 1 and said.count("epoch 5/5") == 1
    ours, theirs = weights(folder), weights(whole)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.processes
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc to tell the processes apart")
@pytest.mark.parametrize("rank", [0, 1])
def test_a_signal_in_the_last_evaluation_stops_all_when_the_checkpoint_is_written(rank: int, tmp_path: Path):
    """Whoever has got it; no other checkpoint is written, and this one takes longer than torchrun waits."""
    folder, only = tmp_path / "m", ("--max-epochs", "1", "--checkpoint-seconds", "1000")
    running = start(folder, *only, program=[str(SCRIPT.with_name("slowly.py"))])
    deadline = time.monotonic() + 120
    while not (folder / "evaluating").exists():
        assert running.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process(folder, rank), signal.SIGTERM)
    said = running.communicate(timeout=120)[0]
    assert running.returncode == 1 and said.count("stopped by SIGTERM. Resume with: torchrun") == 1, said
    assert (folder / "checkpoint.safetensors").exists() and not (folder / "model.json").exists()
    said = start(folder, "--resume", *only).communicate(timeout=200)[0]
    assert "resuming after epoch 1" in said and (folder / "model.json").exists(), said


@pytest.mark.processes
def test_an_error_is_told_once(tmp_path: Path):
    running = start(tmp_path / "m", "--batch-size", "3")
    said = running.communicate(timeout=120)[0]
    assert running.returncode == 1 and not (tmp_path / "m").exists()
    assert said.count("error: 2 processes cannot share mini-batches of 3 rows evenly. Use --batch-size 4, or") == 1
