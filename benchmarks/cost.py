"""Wall time and peak memory of the recommended method beside the strongest linear peer, by the command line itself.

Appends a record for each system to ``results/cost.jsonl``. Nothing else may run meanwhile:

    python benchmarks/cost.py [SYSTEM ...]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from multidomain.bench.memory import command_cost
from multidomain.code import code_hash
from multidomain.experiments.records import append_record
from multidomain.runs.machine import machine

RESULTS = Path(__file__).parents[1] / "results" / "cost.jsonl"
# What `sped` reads of texts; without effect on vectors.
PEER = ("fa-svm", "--max-features", "500000", "--ngram-range", "1,3")
SYSTEMS = {"sped": ("sped",), "fa-svm": PEER, "fa-svm --set C=1": (*PEER, "--set", "C=1")}
CORPORA = {"amazon, five folds": [("amazon", "--fold", str(fold)) for fold in range(5)], "fdu-mtl": [("fdu-mtl",)]}


def main() -> None:
    """Measure the systems that are named, or all, on each corpus."""
    for corpus, runs in CORPORA.items():
        for system in sys.argv[1:] or SYSTEMS:
            method, *options = SYSTEMS[system]
            with tempfile.TemporaryDirectory() as folder:
                costs = [
                    command_cost("train", *run, "--method", method, *options, "-o", f"{folder}/{number}")
                    for number, run in enumerate(runs)
                ]
            seconds, megabytes = sum(s for s, _ in costs), max(m for _, m in costs)
            record = {"corpus": corpus, "system": system, "seconds": round(seconds, 1), "peak_mb": round(megabytes)}
            append_record(RESULTS, {**record, "code": code_hash(), "machine": machine()})
            print(f"{corpus}: {system} {seconds:.0f} s, {megabytes / 1024:.1f} GB", flush=True)


if __name__ == "__main__":
    main()
