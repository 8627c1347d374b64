"""One network trained by one process and by two: how much faster two are, and how far their curves are apart.

Without dropout, so that both compute the same but for rounding. Appends a record for each system and number of
processes to ``results/data_parallel.jsonl``. Nothing else may run meanwhile:

    python benchmarks/data_parallel.py [CORPUS [SYSTEM ...]]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from multidomain.code import code_hash
from multidomain.experiments.records import append_record
from multidomain.runs.machine import machine

RESULTS = Path(__file__).parents[1] / "results" / "data_parallel.jsonl"
PROCESSES, EPOCHS = (1, 2), 3
SYSTEMS = {
    "man-nll": ("--method", "man-nll"),
    "sp": ("--method", "sp"),
    "man-nll cnn": ("--method", "man-nll", "--extractor", "cnn", "--vectors", "random"),
    "asp-mtl lstm": ("--method", "asp-mtl", "--vectors", "random"),
}
TRAINING = ("--set", "dropout=0", "--max-epochs", str(EPOCHS), "--patience", str(EPOCHS), "--batch-size", "8")


def main() -> None:
    """Train the systems that are named, or all, on a corpus."""
    corpus, *systems = sys.argv[1:] or ["fdu-mtl"]
    for system in systems or SYSTEMS:
        alone: list[dict[str, Any]] = []
        for n in PROCESSES:
            epochs = _trained(corpus, SYSTEMS[system], n)
            alone = alone or epochs
            # Not of the first epoch, in which loops are compiled or loaded.
            seconds = sum(epoch["seconds"] for epoch in epochs[1:]) / (EPOCHS - 1)
            record = {
                "corpus": corpus,
                "system": system,
                "processes": n,
                "seconds_per_epoch": round(seconds, 2),
                "largest_difference": _largest_difference(alone, epochs),
                "dev": [epoch["dev_accuracy"] for epoch in epochs],
            }
            append_record(RESULTS, {**record, "code": code_hash(), "machine": machine()})
            print(f"{system}, {n} processes: {seconds:.1f} s per epoch, {record['largest_difference']}", flush=True)


def _trained(corpus: str, options: tuple[str, ...], processes: int) -> list[dict[str, Any]]:
    """Return what the log says of each epoch."""
    launcher = ("-m", "torch.distributed.run", "--nproc-per-node", str(processes)) if processes > 1 else ()
    with tempfile.TemporaryDirectory() as folder:
        run = ("train", corpus, *options, *TRAINING, "--device", "cpu", "-o", f"{folder}/run")
        subprocess.run([sys.executable, *launcher, "-m", "multidomain", *run], check=True, stdout=subprocess.DEVNULL)
        lines = (Path(folder) / "run" / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def _largest_difference(alone: list[dict[str, Any]], together: list[dict[str, Any]]) -> dict[str, float]:
    """Return the largest difference of each logged mean over an epoch."""
    return {
        name: max(abs(one["log"][name] - other["log"][name]) for one, other in zip(alone, together, strict=True))
        for name in alone[0]["log"]
    }


if __name__ == "__main__":
    main()
