"""Engines on real processes: every task ends once, whatever happens to workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from engine_tasks import run_task

from multidomain.engines.base import ATTEMPTS, ENGINES, Engine
from multidomain.engines.local import LocalEngine
from multidomain.errors import ConfigError, WorkerError

TASKS = ["fail", "die", "die once", *(f"task {i}" for i in range(30))]


@pytest.fixture(
    params=[
        ("local", None),
        ("dask", None),
        pytest.param(("ray", None), marks=pytest.mark.ray),
        pytest.param(("spark", None), marks=pytest.mark.spark),
        pytest.param(("spark", "local-cluster[2,1,1024]"), marks=pytest.mark.spark),
    ],
    ids=lambda param: "-".join(filter(None, param)),
)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    found_by_workers = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(found_by_workers))
    name, address = request.param
    with ENGINES.find(name)(address, 2) as engine:
        yield engine


def test_every_task_has_one_outcome_whatever_happens_to_workers(engine: Engine, tmp_path: Path) -> None:
    outcomes = list(engine.map(partial(run_task, tmp_path), TASKS))
    assert sorted(outcome.task for outcome in outcomes) == sorted(TASKS)
    by_task = {outcome.task: outcome for outcome in outcomes}
    failed, died = by_task.pop("fail").error, by_task.pop("die").error
    assert isinstance(failed, ValueError) and str(failed) == "as it was told"
    assert isinstance(died, WorkerError)
    assert f"was killed each of {ATTEMPTS} times" in str(died) and "at: die." in str(died)
    assert all(outcome.error is None and outcome.value[0] == task for task, outcome in by_task.items())
    assert os.getpid() not in {outcome.value[1] for outcome in by_task.values()}


def test_tasks_are_taken_as_workers_become_free(engine: Engine, tmp_path: Path) -> None:
    taken = []

    def tasks() -> Iterator[str]:
        for i in range(1000):
            taken.append(i)
            yield f"task {i}"

    first = next(iter(engine.map(partial(run_task, tmp_path), tasks())))
    assert first.error is None
    assert len(taken) < 20


def test_a_cluster_that_loses_workers_gets_no_more_tasks_until_it_has_room(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, taken, ended = iter([2, *[0] * 1000]), 0, 0
    monkeypatch.setattr(engine, "_slots", lambda: next(there))

    def tasks() -> Iterator[str]:
        nonlocal taken
        for i in range(12):
            taken += 1
            yield f"task {i}"

    for outcome in engine.map(partial(run_task, tmp_path), tasks()):
        assert outcome.error is None
        ended += 1
        assert taken <= max(4, ended + 2)  # two for each worker: of two at first, then of one
    assert ended == 12


def test_how_many_tasks_run_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as the cluster has room for, and no more than were asked for."""
    assert LocalEngine(workers=3).at_a_time == 3
    for asked, there, expected in ((None, 9, 9), (4, 9, 4), (9, 4, 4), (None, 0, 1)):
        engine = ENGINES.find("dask")("127.0.0.1:1", asked)
        monkeypatch.setattr(engine, "_slots", lambda there=there: there)
        assert engine.at_a_time == expected


def test_an_engine_that_is_left_ends_what_runs(tmp_path: Path) -> None:
    code = f"""
import sys, time
sys.path.insert(0, {str(Path(__file__).parent)!r})
from multidomain.engines.base import ENGINES
if __name__ == "__main__":
    with ENGINES.find("local")(None, 2) as engine:
        running = engine.map(time.sleep, [0.1, 1000, 1000])
        print(next(running).task, flush=True)
        next(running)
"""
    script = tmp_path / "main.py"
    script.write_text(code)
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout and process.stdout.readline() == "0.1\n"
    workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(workers) >= 2
    process.send_signal(signal.SIGINT)
    process.wait(timeout=20)
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("dask", "127.0.0.1:1"),
        pytest.param("ray", "127.0.0.1:1", marks=pytest.mark.ray),
        pytest.param("spark", "spark://127.0.0.1:1", marks=pytest.mark.spark),
    ],
)
def test_a_cluster_that_cannot_be_reached_is_said(name: str, address: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"There is no {name.title()} cluster at '{address}' that this process can use"
    ):
        ENGINES.find(name)(address, None).__enter__()


def test_local_processes_have_no_address() -> None:
    with pytest.raises(ConfigError, match="The engine 'local' has no address"):
        ENGINES.find("local")("127.0.0.1:1", None)


def test_an_unknown_engine_lists_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"There is no engine 'dusk'. Did you mean 'dask'"):
        ENGINES.find("dusk")
