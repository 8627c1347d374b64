"""Prediction of many rows on each engine, with one and two workers and with one that is killed; and what engines cost.

Appends records to ``results/scale.jsonl``, from which the tables of ``docs/scale.md`` are made:

    python benchmarks/scale.py                                  # a million rows, all engines; up to an hour
    python benchmarks/scale.py --rows 20000 --engine local      # a try
    python benchmarks/scale.py --what tasks --what domains      # one part of it

Engines are started on this machine: ``--engine spark`` with an executor process for each worker. Engines that are not
installed are left out.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

from multidomain.bench.generated import generated_rows
from multidomain.bench.memory import command_cost
from multidomain.bench.processes import descendants, has_model_open
from multidomain.code import code_hash
from multidomain.engines.base import ENGINES
from multidomain.experiments.records import append_record, read_records
from multidomain.runs.machine import machine

RESULTS = Path(__file__).parents[1] / "results" / "scale.jsonl"
PARTS = ("predict", "tasks", "table", "domains")
WORDS, DOMAINS, TRAINED_ON, PARTITIONS, TASKS = 20, 4, 8_000, 100, 500
MANY_DOMAINS, THEIR_ROWS = (10, 100, 1_000), 20_000


def main(
    rows: int = 1_000_000,
    engine: Annotated[list[str] | None, typer.Option(help="Of those installed all by default.")] = None,
    what: Annotated[list[str] | None, typer.Option(help=f"Some of {', '.join(PARTS)}; all by default.")] = None,
    results: Path = RESULTS,
) -> None:
    """Measure, and append a record for each run."""

    def record(kind: str, **figures: Any) -> None:
        append_record(results, {"what": kind, **figures, "code": code_hash(), "machine": machine()})
        print(kind, figures, flush=True)

    engines = [name for name in engine or ("local", "dask", "ray", "spark") if not ENGINES.needed_for(name)]
    measure: dict[str, Callable[[Path], None]] = {
        "predict": lambda folder: predict(folder, rows, engines, record),
        "tasks": lambda folder: tasks(engines, record),
        "table": lambda folder: table(folder, engines, record),
        "domains": lambda folder: domains(folder, record),
    }
    for part in what or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            measure[part](Path(folder))


Record = Callable[..., None]


def where(engine: str, workers: int) -> list[str]:
    """Return the options of a command that starts so many worker processes here."""
    at = ["--address", f"local-cluster[{workers},1,1024]"] if engine == "spark" else []
    return ["--engine", engine, "--workers", str(workers), *at]


def multidomain(*arguments: object) -> None:
    command = [sys.executable, "-m", "multidomain", *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True)


def predict(folder: Path, rows: int, engines: Sequence[str], record: Record) -> None:
    """Predict generated rows in one process, then on engines, and compare."""
    data, model, whole = folder / "data", folder / "model", folder / "whole.parquet"
    write_parts(data, rows)
    train_on(folder / "train.csv", TRAINED_ON, DOMAINS)
    multidomain("train", folder / "train.csv", "-o", model)
    pl.concat(map(pl.read_parquet, sorted(data.iterdir()))).write_parquet(folder / "all.parquet")
    began = time.monotonic()
    multidomain("predict", model, folder / "all.parquet", "-o", whole)
    alone = time.monotonic() - began
    expected = pl.read_parquet(whole)
    sizes = {"bytes_in": size_of(data), "bytes_out": whole.stat().st_size, "model_bytes": size_of(model)}
    record("predict-alone", rows=rows, seconds=round(alone, 1), **sizes)
    for engine in engines:
        for workers, kill in ((1, False), (2, False), (2, True)):
            out = folder / f"{engine}-{workers}-{kill}"
            took = timed_predict(["predict", model, data, "-o", out, *where(engine, workers)], kill)
            found = pl.concat(map(pl.read_parquet, sorted(out.rglob("*.parquet"))))
            differences = {
                "lost": rows - found["id"].n_unique(),
                "doubled": len(found) - found["id"].n_unique(),
                "equal": found.equals(expected),
            }
            about = {"engine": engine, "workers": workers, "rows": rows, "partitions": PARTITIONS}
            record("predict", **about, **took, **differences)


def write_parts(folder: Path, rows: int) -> None:
    """Write generated rows to Parquet files of equal length."""
    folder.mkdir()
    texts, _, names = zip(*generated_rows(rows, WORDS, DOMAINS, seed=1), strict=True)
    columns = {"text": np.concatenate(texts), "domain": np.concatenate(names)}
    frame = pl.DataFrame({"id": np.arange(rows), **columns})
    for k in range(PARTITIONS):
        part = frame[k * rows // PARTITIONS : (k + 1) * rows // PARTITIONS]
        part.write_parquet(folder / f"part-{k:04}.parquet")


def train_on(file: Path, rows: int, n_domains: int) -> None:
    """Write labelled rows of the same kind."""
    texts, labels, names = zip(*generated_rows(rows, WORDS, n_domains), strict=True)
    columns = {"text": texts, "label": labels, "domain": names}
    pl.DataFrame({name: np.concatenate(values) for name, values in columns.items()}).write_csv(file)


def timed_predict(arguments: Sequence[object], kill: bool) -> dict[str, Any]:
    """Run the command, and note when the first and the last file are finished; kill a worker after a third of them."""
    began, killed, ended = time.monotonic(), 0, []
    command = [sys.executable, "-m", "multidomain", *map(str, arguments)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    said = []
    for line in process.stderr:
        said.append(line)
        if re.match(r"\d+/\d+ ", line):
            ended.append(round(time.monotonic() - began, 1))
        if kill and not killed and len(ended) >= PARTITIONS // 3:
            worker = next(pid for pid in descendants(process.pid) if has_model_open(pid))
            os.kill(worker, signal.SIGKILL)
            killed += 1
    seconds = time.monotonic() - began
    assert process.wait() == 0, "".join(said)
    return {"killed": killed, "first_seconds": ended[0], "last_seconds": ended[-1], "seconds": round(seconds, 1)}


def tasks(engines: Sequence[str], record: Record) -> None:
    """Measure what starting an engine costs, and tasks that do nothing."""
    for engine in engines:
        options = where(engine, 2)
        address = options[options.index("--address") + 1] if "--address" in options else None
        code = f"""
import json, time
from multidomain.engines.base import ENGINES
if __name__ == "__main__":
    began = time.monotonic()
    with ENGINES.find({engine!r})({address!r}, 2) as engine:
        started = time.monotonic()
        list(engine.map(abs, [0]))
        first = time.monotonic()
        assert sum(outcome.value for outcome in engine.map(abs, range({TASKS}))) == sum(range({TASKS}))
        ended = time.monotonic()
    print(json.dumps([started - began, first - started, (ended - first) / {TASKS}]))
"""
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "tasks.py"
            script.write_text(code)
            done = subprocess.run([sys.executable, str(script)], check=True, capture_output=True, text=True)
        start, first, each = json.loads(done.stdout.splitlines()[-1])
        took = {"start_seconds": round(start, 1), "first_seconds": round(first, 2), "task_ms": round(1000 * each, 2)}
        record("tasks", engine=engine, workers=2, tasks=TASKS, **took)


def table(folder: Path, engines: Sequence[str], record: Record) -> None:
    """Reproduce the LR rows of Table 1 on each engine, and compare the records with those of one process."""
    kept = {}
    for engine in ("one process", *engines):
        results = folder / engine
        options = where(engine, 2) if engine in engines else []
        began = time.monotonic()
        multidomain("reproduce", "table1", "--only", "lr", "--results", results, *options)
        seconds = round(time.monotonic() - began, 1)
        found = [without_times(one) for one in read_records(results / "table1.jsonl")]
        kept[engine] = sorted(json.dumps(one, sort_keys=True) for one in found)
        same = kept[engine] == kept["one process"]
        record("table", engine=engine, runs=len(found), seconds=seconds, same=same)


def without_times(one: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in one.items() if name not in ("seconds", "cpu_seconds")}


def domains(folder: Path, record: Record) -> None:
    """Train the default method on few and on many domains."""
    for n in MANY_DOMAINS:
        file, model = folder / f"{n}.csv", folder / f"model-{n}"
        train_on(file, THEIR_ROWS, n)
        seconds, peak = command_cost("train", str(file), "-o", str(model))
        figures = {"seconds": round(seconds, 1), "peak_mb": round(peak), "model_bytes": size_of(model)}
        record("domains", domains=n, rows=THEIR_ROWS, **figures)


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    typer.run(main)
