"""A search over the settings of `man-nll` on Amazon, fold 0, whose driver is killed twice and goes on.

Runs `multidomain tune` with two workers, kills it with SIGKILL when a third and two thirds of the trials have ended,
repeats the command each time, and trains with the best settings in the end. Appends a record to
``results/tune_study.jsonl`` and writes the plot to ``docs/images/tune-study.svg``; some 20 minutes on two cores:

    python benchmarks/tune_study.py
    python benchmarks/tune_study.py --try                       # three tiny trials, nothing is recorded
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from multidomain.bench.processes import descendants
from multidomain.code import code_hash
from multidomain.experiments.records import append_record
from multidomain.runs.machine import machine
from multidomain.tuning.folder import BEST, PLOT, TRIALS, StudyFolder, best_of

ROOT = Path(__file__).parents[1]
STUDY = ("amazon", "--fold", "0", "--method", "man-nll")
TINY = ("--max-epochs", "2", "--set", "hidden=20", "--set", "shared_size=8", "--set", "private_size=4", "--set", "k=1")


def main(
    trials: int = 30,
    workers: int = 2,
    folder: Annotated[Path | None, typer.Option(help="Keep the study here; a temporary folder by default.")] = None,
    tiny: Annotated[bool, typer.Option("--try", help="Three tiny trials, to see that it works.")] = False,
) -> None:
    """Run the study, and record it."""
    with tempfile.TemporaryDirectory() as temporary:
        study = folder or Path(temporary) / "study"
        count = 3 if tiny else trials
        record = run_study(study, count, workers, TINY if tiny else ())
        print(json.dumps(record, indent=1))
        if not tiny:
            append_record(ROOT / "results" / "tune_study.jsonl", record)
            shutil.copy(study / PLOT, ROOT / "docs" / "images" / "tune-study.svg")


def run_study(folder: Path, trials: int, workers: int, options: tuple[str, ...]) -> dict[str, Any]:
    """Run the command until it ends by itself, then train with what it found."""
    command = [*STUDY, *options, "--trials", str(trials), "--workers", str(workers), "-o", str(folder)]
    began, kills = time.monotonic(), []
    for stop_after in (trials // 3, 2 * trials // 3, None):
        kills += ended_trials(command, stop_after)
    seconds = time.monotonic() - began
    records = StudyFolder(folder).journal().records()
    best = best_of(records)
    assert best is not None and best.score is not None
    assert [one.number for one in records] == list(range(trials)) and all(one.is_finished for one in records)
    rows = (folder / TRIALS).read_text().splitlines()
    assert len(rows) == trials + 1, "a trial is lost or doubled"
    subprocess.run([sys.executable, "-m", "multidomain", "train", "--config", str(folder / BEST)], check=True)
    log = [json.loads(line) for line in (folder / "best" / "log.jsonl").read_text().splitlines()]
    return {
        "command": ["multidomain", "tune", *command[:-1], "STUDY"],
        "trials": [
            {"number": one.number, "state": one.state, "score": one.score, "values": one.values, "seconds": one.seconds}
            for one in records
        ],
        "best": best.number,
        "dev_default": records[0].score,
        "dev_best": best.score,
        "dev_trained": max(epoch["dev_accuracy"] for epoch in log),
        "test_trained": json.loads((folder / "best" / "metrics.json").read_text())["result"]["test"]["accuracy"],
        "toml": (folder / BEST).read_text().replace(str(folder), "STUDY"),
        "killed_after": kills,
        "seconds": round(seconds, 1),
        "code": code_hash(),
        "machine": machine(),
    }


def ended_trials(command: list[str], stop_after: int | None) -> list[int]:
    """Run the command, and kill it when so many trials have ended; return how many had, if it was killed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "multidomain", "tune", *command], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    for line in process.stdout:
        print(line, end="", flush=True)
        ended = re.match(r"(\d+)/\d+ ", line)
        if stop_after is not None and ended and int(ended[1]) >= stop_after:
            workers = descendants(process.pid)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            while any(Path(f"/proc/{pid}").exists() for pid in workers):  # they see that their parent is gone
                time.sleep(0.2)
            print(f"killed when {ended[1]} trials had ended", flush=True)
            return [int(ended[1])]
    assert process.wait() == 0
    return []


if __name__ == "__main__":
    typer.run(main)
