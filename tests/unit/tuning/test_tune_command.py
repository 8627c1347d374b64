"""The command `tune` in real processes: what it prints, and that it goes on after any process was killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from studies import Here, small_study, write_reviews

from multidomain.report.study_plot import plot_trials
from multidomain.tuning.folder import StudyFolder
from multidomain.tuning.trial import TrialRecord
from multidomain.tuning.tune import tune

Run = Callable[..., tuple[int, str, str]]

TRIALS = 5
SEARCH = ["lr=0.001..0.1:log", "k=1..5"]
NETWORK = ["--method", "man-nll", "--max-epochs", "6", "--patience", "6", "--checkpoint-seconds", "0"]
NETWORK += ["--set", "hidden=8", "--set", "shared_size=4", "--set", "private_size=4", "--set", "lr=0.03"]
NETWORK += [part for one in SEARCH for part in ("--search", one)]
LINEAR = ["--method", "fa-lr", "--search", "C=0.1..10:log"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_reviews(tmp_path / "reviews.csv")


def records(folder: Path) -> list[TrialRecord]:
    return [replace(one, seconds=0.0) for one in StudyFolder(folder).journal().records()]


def started(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "multidomain", "tune", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def after(process: subprocess.Popen[str], start: str) -> None:
    """Read what a process prints until a line begins like this."""
    assert process.stdout
    for line in process.stdout:
        if line.startswith(start):
            return
    pytest.fail(f"it ended too early: {process.communicate()}")


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(one) for one in children if "spawn_main" in Path(f"/proc/{one}/cmdline").read_text()]


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux")
def test_a_worker_and_the_driver_are_killed_and_the_study_ends_as_if_not(data: Path, tmp_path: Path, run: Run) -> None:
    arguments = [data, *NETWORK, "-o", tmp_path / "study", "--trials", TRIALS]
    process = started(*arguments)
    after(process, "1/")
    [worker] = workers_of(process)
    os.kill(worker, signal.SIGKILL)
    after(process, "3/")
    [worker] = workers_of(process)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    process.communicate()
    wait_until_gone([worker])
    before = records(tmp_path / "study")
    assert 3 <= sum(one.is_finished for one in before) < TRIALS
    code, _, err = run("tune", *arguments)
    assert (code, err) == (0, ""), err
    found = records(tmp_path / "study")
    assert [one.number for one in found] == list(range(TRIALS)) and all(one.is_finished for one in found)
    assert found[: len(before) - 1] == before[:-1]
    whole = small_study(tmp_path / "whole", SEARCH, TRIALS)
    tune(whole, engine=Here())
    assert found == records(tmp_path / "whole")


def test_ctrl_c_says_how_to_go_on(data: Path, tmp_path: Path) -> None:
    process = started(data, *LINEAR, "-o", tmp_path / "study", "--trials", 500)
    after(process, "1/")
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "stopped by Ctrl-C. All trials so far are kept; the same command goes on with the rest.\n"


@pytest.mark.parametrize("engine", ["dask", pytest.param("ray", marks=pytest.mark.ray)])
def test_two_workers_of_an_engine(engine: str, data: Path, tmp_path: Path, run: Run) -> None:
    arguments = [data, *LINEAR, "-o", tmp_path / "study", "--trials", 4, "--engine", engine, "--workers", 2]
    code, out, err = run("tune", *arguments)
    assert (code, err) == (0, ""), err
    plan, to_do, *progress = out.splitlines()
    assert plan == "search: C in 0.1..10:log"
    assert to_do == "4 trials to do, 2 at a time; a line is printed as each ends"
    ended = (
        r"trial \d: complete, dev \d\d\.\d\d, \d+ s, (C [\d.]+|defaults); best \d\d\.\d\d \(trial \d\); about .* left"
    )
    for i, line in enumerate(progress[:4], start=1):
        assert re.fullmatch(f"{i}/4  {ended}", line), line
    assert [one.state for one in records(tmp_path / "study")] == ["complete"] * 4


def test_a_study_is_shown(data: Path, tmp_path: Path, run: Run) -> None:
    arguments = [data, *LINEAR, "--search", "min_df=1,2", "-o", tmp_path / "study", "--trials", 3]
    assert run("tune", *arguments)[0] == 0
    (tmp_path / "study" / "study.svg").unlink()
    code, out, err = run("tune", "--show", tmp_path / "study")
    assert (code, err) == (0, "")
    assert re.search(r"trial ┃ state +┃ dev accuracy ┃ +C ┃ min_df ┃", out)
    assert re.search(r"│ 0 +│ complete │ +\d\d\.\d\d │ default │ +1 │", out)
    assert re.search(r"^best: trial \d, dev accuracy \d\d\.\d\d, ", out, flags=re.MULTILINE)
    assert re.search(r"points better than trial 0 \(|no trial is better than trial 0", out)
    assert f"next: multidomain train --config {tmp_path / 'study' / 'best.toml'}" in out
    assert (tmp_path / "study" / "study.svg").read_text().startswith("<?xml")
    code, out, _ = run("train", "--config", tmp_path / "study" / "best.toml")
    assert code == 0 and f"(train.toml): {tmp_path / 'study' / 'best'}" in out


def test_without_matplotlib_there_is_a_note_and_no_plot(
    data: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, _, err = run("tune", data, *LINEAR, "-o", tmp_path / "study", "--smoke")
    assert code == 0 and "Plots need matplotlib. Install it with: pip install 'multidomain[plots]'" in err
    assert not (tmp_path / "study" / "study.svg").exists()


def test_without_optuna_it_says_what_to_install(
    data: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "multidomain.tuning.journal", raising=False)
    monkeypatch.setitem(sys.modules, "optuna", None)
    code, _, err = run("tune", data, *LINEAR, "-o", tmp_path / "study")
    assert code == 2
    assert err.strip() == (
        "error: A search over settings needs optuna, which is not installed. Run: pip install 'multidomain[tune]'"
    )
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--method", "auto"], "A search is over the settings of one method. Name it (--method NAME)."),
        (["--search", "C=1..x", "--search", "c=1,2"], "Invalid search:\n  - 'C': input should be a valid number"),
        (["--set", "c=1"], "Invalid settings:\n  - 'c' is not a setting. Valid: 'C'."),
        (["--engine", "dusk"], "There is no engine 'dusk'. Did you mean 'dask'?"),
        (["--address", "here:1"], "The engine 'local' has no address. Leave --address out"),
        (["--method", "lr"], "There is nothing to search: no setting of 'lr' that is left open declares a range."),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_trained(
    arguments: list[str], said: str, data: Path, tmp_path: Path, run: Run
) -> None:
    code, _, err = run("tune", data, "-o", tmp_path / "study", "--method", "fa-lr", *arguments)
    assert code == 2 and err.startswith(f"error: {said}"), err
    assert not (tmp_path / "study").exists()


def test_a_plot_has_a_panel_for_each_setting(tmp_path: Path) -> None:
    asked = small_study(tmp_path / "study", ["lr=1e-9..0.1:log", "k=1,2", "norm=all-domains,none"], 3).asked
    ended = [
        TrialRecord(0, {"lr": 0.03, "norm": "none"}, "complete", 0.7, (0.6, 0.7), 1.0, ""),
        TrialRecord(1, {"lr": 1e-9, "k": 1, "norm": "none"}, "pruned", 0.5, (0.5,), 1.0, ""),
        TrialRecord(2, {"lr": 0.1, "k": 2, "norm": "none"}, "failed", None, (), 1.0, "diverged"),
    ]
    content = plot_trials(ended, asked)
    assert content == plot_trials(ended, asked)
    assert content.count(b'id="axes_') == 4
    assert plot_trials([], asked)
