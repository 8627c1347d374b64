"""What `--compact` saves, and what it costs: `sped` on `vader`, by the command line itself.

Appends a record for each share of dev predictions that may change to ``results/compact.jsonl``.

    python benchmarks/compact.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from multidomain.code import code_hash
from multidomain.experiments.records import append_record
from multidomain.runs.machine import machine

RESULTS = Path(__file__).parents[1] / "results" / "compact.jsonl"
SHARES = (0.0, 0.01, 0.02)


def main() -> None:
    """Train with each share."""
    for share in SHARES:
        with tempfile.TemporaryDirectory() as folder:
            options = ("vader", "--compact", str(share), "-o", f"{folder}/run")
            subprocess.run([sys.executable, "-m", "multidomain", "train", *options], check=True)
            metrics = json.loads((Path(folder) / "run" / "metrics.json").read_text())
        record = {name: metrics[name] for name in ("data", "split", "settings")} | metrics["result"]["compaction"]
        append_record(RESULTS, {**record, "code": code_hash(), "machine": machine()})


if __name__ == "__main__":
    main()
