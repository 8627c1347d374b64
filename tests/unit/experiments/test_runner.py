"""Runs of a tiny table: what a record says, what is run again, and a whole command that is killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from small_corpora import DOMAINS, put_in_place_of_amazon, small_amazon

from multidomain.cli import reproduce as commands
from multidomain.code import code_hash
from multidomain.data.named.registry import NamedCorpus
from multidomain.engines.base import Engine, Outcome, worker_died
from multidomain.errors import ConfigError, WorkerError
from multidomain.experiments import runner
from multidomain.experiments.recipes import Recipe
from multidomain.experiments.records import read_records, unpack
from multidomain.experiments.runner import Progress, Run, execute, planned_runs, reproduce
from multidomain.training.train import train_model

PROGRESS = re.compile(r"(\d+)/(\d+)  table1 shared/\w+.* \d: test [\d.]+, dev [\d.]+, \d+ s; about \d:\d\d:\d\d left")
MAY_DIFFER = {"seconds", "cpu_seconds", "machine", "code"}
key = itemgetter("category", "system", "seed", "fold")
DRIVER = f"""
import sys
import time
from multidomain.cli.main import main
from multidomain.data.named.registry import CORPORA
from multidomain.experiments import runner
sys.path.append({str(Path(__file__).parent)!r})
from test_runner import AMAZON, tiny_recipe

CORPORA.find("amazon")  # what registers by itself comes first
CORPORA.add("amazon", AMAZON)
runner.load_recipe = tiny_recipe  # in the workers too: they run this file up to here
append_record = runner.append_record


def append_and_wait(*arguments):
    append_record(*arguments)
    time.sleep(600)


if __name__ == "__main__":
    if sys.argv[-1] == "wait":  # to be killed after the first record
        sys.argv.pop()
        runner.append_record = append_and_wait
    main()
"""
Done = tuple[Run, dict[str, Any]]
Command = Callable[..., tuple[int, str, str]]


AMAZON = NamedCorpus("amazon", "small", "generated", small_amazon)
AMAZON_HASH = {"name": "amazon", "sha256": small_amazon().content_hash()}


def tiny_recipe(table: str) -> Recipe:
    training = {"max_epochs": 4, "checkpoint_seconds": 0}
    network = {"settings": {"hidden": [8], "shared_size": 4, "lr": 0.01}, "training": training, "seeds": 2}
    rows = [
        {"category": "shared", "system": "LS", "method": "ls", "extractor": "linear"},
        {"category": "shared", "system": "MLP", "method": "mlp", "extractor": "mlp", **network},
    ]
    protocol = {"table1": "five-fold", "table2": "unlabelled-target"}[table]
    return Recipe.parse({"title": "tiny", "protocol": protocol, "published": "", "rows": rows})


@pytest.fixture(scope="module")
def tiny() -> Iterator[None]:
    """The tiny table on the small corpus, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        put_in_place_of_amazon(patch, AMAZON)
        patch.setattr(runner, "load_recipe", tiny_recipe)
        runner._corpus.cache_clear()
        yield
    runner._corpus.cache_clear()


def run_of(table: str, system: str, seed: int | None, **spec: Any) -> Run:
    return Run(table, tiny_recipe(table).only([system])[0], seed, spec)


RUNS = {
    "fitted": run_of("table1", "LS", None, fold=1),
    "network": run_of("table1", "MLP", 2, fold=4),
    "oracle": run_of("table2", "MLP", 1, target="dvd", selection="oracle", target_text="train"),
    "source-dev": run_of("table2", "LS", None, target="kitchen", selection="source-dev", target_text="test"),
}


@pytest.fixture(scope="module", params=RUNS)
def done(request: pytest.FixtureRequest, tiny: None, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """A run and its record, as a file gives it back."""
    run, folder = RUNS[request.param], tmp_path_factory.mktemp("running")
    record = json.loads(json.dumps(execute(run, folder)))
    assert list(folder.iterdir()) == []
    return run, record


def test_a_record_says_what_was_run_and_where(done: Done) -> None:
    run, record = done
    expected = {"table": run.table, "category": "shared", "system": run.row.system, "method": run.row.method}
    expected |= {"extractor": run.row.extractor, "seed": run.seed, "code": code_hash(), "data": AMAZON_HASH}
    expected |= {"config": run.row.run_settings(run.seed or 0).complete(), "classes": ["negative", "positive"]}
    expected |= run.spec  # the fold, or the target, the rule of selection and the text
    assert {name: record[name] for name in expected} == expected
    assert {"multidomain", "python", "torch", "numpy", "scipy", "scikit-learn", "threads"} <= set(record["machine"])
    assert record["seconds"] >= 0 and record["cpu_seconds"] >= 0
    if run.seed is None:
        assert set(record["chosen"]) == {"C"} and record["best_epoch"] is record["epochs"] is None
    else:
        assert 1 <= record["best_epoch"] <= record["epochs"] <= 4


def test_answers_and_accuracies_are_those_of_the_trained_model(done: Done) -> None:
    (run, record), corpus = done, small_amazon()
    split = tiny_recipe(run.table).experiment.split(corpus, run.spec)
    model = train_model(corpus, split, run.row.run_settings(run.seed or 0), device="cpu").model
    for part, rows in (("test", split.test), ("dev", split.dev)):
        answers, labels = model.predict(corpus.documents[rows], list(corpus.domains[rows])), corpus.labels[rows]
        of_domain = {name: corpus.domains[rows] == name for name in set(corpus.domains[rows])}
        assert record[part] == {name: np.mean(answers[here] == labels[here]) for name, here in of_domain.items()}
        if part == "test":
            for name, here in of_domain.items():
                unpacked = [np.array(record["classes"])[unpack(record[of][name])] for of in ("predictions", "truth")]
                assert [found.tolist() for found in unpacked] == [answers[here].tolist(), labels[here].tolist()]


def test_clean_accuracy_is_that_of_clean_rows(done: Done) -> None:
    (run, record), corpus = done, small_amazon()
    split = tiny_recipe(run.table).experiment.split(corpus, run.spec)
    texts = [tuple(row) for row in corpus.documents.toarray()]
    elsewhere = {texts[i] for i in {*split.train, *split.dev, *split.unlabelled} - {*split.test}}
    for name in record["test"]:
        clean = np.array([texts[i] not in elsewhere for i in split.test if corpus.domains[i] == name])
        right = unpack(record["predictions"][name]) == unpack(record["truth"][name])
        assert 0 < clean.sum() == record["clean_rows"][name] < len(clean)
        assert record["clean"][name] == right[clean].mean()


def test_each_run_has_a_checkpoint_of_its_own(tiny: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    train = MagicMock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr(runner, "train_and_score", train)
    for run in [*RUNS.values(), *RUNS.values()]:
        with pytest.raises(KeyboardInterrupt):
            execute(run, tmp_path)
    asked = [call.kwargs["checkpoint_path"] for call in train.call_args_list]
    assert asked[:4] == asked[4:] and len({path for path in asked if path.parent == tmp_path}) == 4


class Pretended(Engine):
    """Runs of seed 2 kill their workers; others have taken 10 or 2 seconds."""

    def __exit__(self, *exception: object) -> None:
        pass

    def map(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Outcome[Any]]:
        for run in tasks:
            if run.seed == 2:
                yield Outcome(run, error=worker_died(run))
            else:
                seconds = 10.0 if run.seed else 2.0
                yield Outcome(run, {**run.identity(), "seconds": seconds, "data": AMAZON_HASH})


def test_time_left_and_a_killed_worker(tiny: None, tmp_path: Path) -> None:
    heard: list[Progress] = []
    assert reproduce("table1", tmp_path, seeds=[1], engine=Pretended(workers=2), on_record=heard.append) == 10
    took: list[tuple[str, float]] = []
    for i, progress in enumerate(heard, start=1):
        took.append((progress.run.row.system, progress.record["seconds"]))
        left = {row: 5 - sum(name == row for name, _ in took) for row in ("LS", "MLP")}
        mean = float(np.mean([seconds for _, seconds in took]))  # for a row of which nothing is known yet
        assert progress.seconds_left == pytest.approx(sum(n * dict(took).get(row, mean) for row, n in left.items()) / 2)
        assert (progress.done, progress.total) == (i, 10)
    with pytest.raises(
        WorkerError, match=r"^A worker process was killed .*: table1 shared/MLP seed 2 \d\. .*workers=1"
    ):
        reproduce("table1", tmp_path, engine=Pretended())
    assert len(read_records(tmp_path / "table1.jsonl")) == 10


def test_after_an_error_no_run_begins(tiny: None, tmp_path: Path) -> None:
    begun = []

    class Observed(Pretended):
        def map(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Outcome[Any]]:
            for run in tasks:
                begun.append(run)
                yield Outcome(run, error=OSError("no room"))

    with pytest.raises(OSError, match="no room"):
        reproduce("table1", tmp_path, engine=Observed())
    assert len(begun) == 1


def test_a_worker_of_other_code_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="A worker has other code of this package"):
        runner._execute("another hash", tmp_path, RUNS["fitted"])


def started(driver: Path, results: Path, workers: int, *options: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}  # two, so that one is our doing
    command = [sys.executable, driver, "reproduce", "table1", "--results", results, "--workers", str(workers), *options]
    with_output = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **with_output, env=environment, start_new_session=True)


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, error = process.communicate(timeout=200)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, out, error


def records_of(ended: tuple[int, str, str], results: Path, at_a_time: str) -> list[dict[str, Any]]:
    """Check what a command that went well has printed, and return all records."""
    code, out, error = ended
    assert (code, error) == (0, "")
    plan, *progress, said, _ = out.splitlines()
    assert plan == f"table1: {len(progress)} runs to do{at_a_time}; a line is printed as each ends"
    counts = [(int(m[1]), int(m[2])) for m in map(PROGRESS.fullmatch, progress) if m]
    assert counts == [(i, len(progress)) for i in range(1, len(progress) + 1)]
    assert said == f"table1: {len(progress)} runs recorded in {results / 'table1.jsonl'}"
    assert not list((results / ".running").glob("*.safetensors"))
    return read_records(results / "table1.jsonl")


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_killed_and_started_again(tiny: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    driver, file, deadline = tmp_path / "driver.py", tmp_path / "table1.jsonl", time.monotonic() + 120
    driver.write_text(DRIVER)
    process = started(driver, tmp_path, 1, "wait")
    while not (file.exists() and file.read_bytes().endswith(b"\n")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "it writes no record"
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)  # the worker too: the group is the command's own
    assert process.wait() == -signal.SIGKILL, process.communicate()
    before = read_records(file)
    assert len(before) == 1  # killed in the middle
    file.write_bytes(file.read_bytes() + b'{"table": "table1", "categ')  # the worst moment
    records = records_of(finished(started(driver, tmp_path, 2)), tmp_path, ", 2 at a time")
    assert records[: len(before)] == before
    runs = planned_runs("table1", tiny_recipe("table1"), [], None)
    assert sorted(map(str, map(key, records))) == sorted(str(key(run.identity())) for run in runs)
    assert {record["machine"]["threads"] for record in records} == {1}
    uninterrupted = {key(run.identity()): execute(run, tmp_path / "other") for run in runs}
    for record in records:
        differing = {name for name, value in uninterrupted[key(record)].items() if record[name] != value}
        assert differing <= MAY_DIFFER
    content = file.read_bytes()
    commands.reproduce_command("table1", results=tmp_path)
    assert capsys.readouterr().out.startswith(f"table1: nothing to run: every run has a record in {file}\n")
    assert file.read_bytes() == content


@pytest.mark.benchmark_data
@pytest.mark.parametrize("engine", ["local", "dask", pytest.param("ray", marks=pytest.mark.ray)])
def test_the_real_command_on_the_real_data(engine: str, benchmark_data: Path, tmp_path: Path, run: Command) -> None:
    ended = run(
        "reproduce", "table1", "--results", tmp_path, "--only", "shared/ls", "--workers", "2", "--engine", engine
    )
    records = records_of(ended, tmp_path, ", 2 at a time")
    assert sorted(map(key, records)) == [("shared", "LS", None, fold) for fold in range(5)]
    for record in records:
        answers = {name: unpack(packed) for name, packed in record["predictions"].items()}
        assert [(name, len(found)) for name, found in answers.items()] == [(name, 400) for name in DOMAINS]
        assert record["machine"]["threads"] == 1
        assert all(accuracy > 0.7 for part in ("dev", "test", "clean") for accuracy in record[part].values())
