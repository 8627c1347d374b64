"""Commands that are stopped by a signal: exit code, how to go on, and that nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]
TRAIN = [
    "train",
    "demo",
    "--method",
    "man-nll",
    "--unlabelled",
    "shoes",
    "--set",
    "hidden=8",
    "--max-epochs",
    "12",
    "--patience",
    "12",
    "-o",
]


def started(folder: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "multidomain", *TRAIN, str(folder), *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def after_epochs(process: subprocess.Popen[str], wanted: int) -> None:
    """Read what a process prints until it has trained for so many epochs."""
    assert process.stderr
    for line in process.stderr:
        if line.startswith("epoch"):
            wanted -= 1
            if not wanted:
                return
    pytest.fail("it ended too early")


@pytest.mark.parametrize(("number", "name"), [(signal.SIGTERM, "SIGTERM"), (signal.SIGINT, "Ctrl-C")])
def test_a_stopped_run_saves_its_state_and_says_how_to_go_on(number: int, name: str, tmp_path: Path, run: Run):
    process = started(tmp_path / "m", "--overwrite")
    after_epochs(process, 3)
    assert not (tmp_path / "m" / "checkpoint.safetensors").exists(), "none is due yet"
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    resume = f"multidomain {' '.join(TRAIN)} {tmp_path / 'm'} --resume"
    assert err.splitlines()[-1] == f"stopped by {name}. Resume with: {resume}"
    assert "Traceback" not in err
    assert (tmp_path / "m" / "checkpoint.safetensors").exists()
    code, _, err = run(*TRAIN, tmp_path / "m", "--resume")
    assert code == 0 and int(err.partition("resuming after epoch ")[2].split()[0]) >= 3
    assert run(*TRAIN, tmp_path / "whole")[0] == 0
    stopped, whole = (next((tmp_path / name).glob("weights-*")) for name in ("m", "whole"))
    assert stopped.name == whole.name, "files are named by their content"


def test_two_processes_cannot_train_in_one_folder(tmp_path: Path, run: Run):
    process = started(tmp_path / "m", "--max-epochs", "500")
    try:
        after_epochs(process, 1)
        code, _, err = run(*TRAIN, tmp_path / "m", "--overwrite")
        assert code == 2
        assert f"Another process is training in {tmp_path / 'm'}. Wait for it, or choose another folder." in err
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


def started_table(results: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "multidomain", "reproduce", "table1", "--smoke", "--results", str(results)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


@pytest.mark.benchmark_data
def test_ctrl_c_while_workers_of_a_table_start_prints_no_traceback(tmp_path: Path, benchmark_data: Path):
    for delay in (0.0, 0.1, 0.4):
        process = started_table(tmp_path)
        assert process.stdout
        while "to do" not in process.stdout.readline():
            assert process.poll() is None, process.communicate()
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert err == "stopped by Ctrl-C. All records so far are kept; the same command goes on with the rest.\n"


@pytest.mark.benchmark_data
def test_a_table_that_is_stopped_keeps_its_records(tmp_path: Path, benchmark_data: Path):
    process = started_table(tmp_path)
    assert process.stdout
    while "1/" not in process.stdout.readline():
        assert process.poll() is None, process.communicate()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    began = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and time.monotonic() - began < 20
    assert err == "stopped by Ctrl-C. All records so far are kept; the same command goes on with the rest.\n"
    assert (tmp_path / "smoke" / "table1.jsonl").read_text().count("\n") >= 1
