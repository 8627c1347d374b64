"""Kills of training runs: how many, at what, and how many ended with the same bits.

For each kind of run (``sped``, ``man-nll``, ``cnn``, ``ensemble``, ``auto``), in a new folder and over an old run, the
process is killed before operations on the files of its folder. After each kill the folder is read as a user would, the
run goes on, and every file is compared with one of a run that was not killed. ``multidomain reproduce`` is killed at
random moments, workers and all, and its records are compared. Appends one JSON record for each kind to
``results/reliability.jsonl``. The first run that differs stops everything, with an error.

    python benchmarks/kill_faults.py --kills 110 --table-kills 20
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import typer

from multidomain.code import code_hash
from multidomain.experiments.records import append_record
from multidomain.runs.machine import machine

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "reliability.jsonl"
sys.path.append(str(ROOT / "tests" / "faults" / "kills"))

from killing import KINDS, check_kill, moments, references  # noqa: E402
from killing_tables import killed_table  # noqa: E402


def main(kills: int = 110, table_kills: int = 20) -> None:
    for kind in KINDS:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as place:
            whole, old, *operations = references(kind, Path(place))
            done = {}
            for over_old_run, of_run in zip((False, True), operations, strict=True):
                at = list(moments(of_run, kills // 2))
                for kill_at in at:
                    check_kill(kind, over_old_run, kill_at, whole, old, Path(place))
                done["over an old run" if over_old_run else "in a new folder"] = {"kills": len(at), "of": of_run}
        _record({"what": "killed-runs", "kind": kind, "folders": done}, began)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        runs = killed_table(Path(place), table_kills)
    _record({"what": "killed-runs", "kind": "reproduce", "kills": table_kills, "runs": runs}, began)


def _record(content: dict[str, object], began: float) -> None:
    seconds = round(time.monotonic() - began, 1)
    append_record(RESULTS, {**content, "exact": True, "seconds": seconds, "code": code_hash(), "machine": machine()})
    print(content, flush=True)


if __name__ == "__main__":
    typer.run(main)
