"""Starts workers that fuzz, for the tests and for the measurement."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CASES = HERE / "cases"


def fuzzed(folder: Path, seed: str, *wanted: str) -> list[Any]:
    """Run a worker and return what it found; a worker that dies is a fault too."""
    code = [sys.executable, str(HERE / "worker.py"), str(folder), seed, *wanted]
    source = str(HERE.parents[2] / "src")
    done = subprocess.run(
        code, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": source}, timeout=3600
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode:
        at = (folder / "current.txt").read_text() if (folder / "current.txt").exists() else "the start"
        last = {"case": at, "what": f"the process died with {done.returncode}: {done.stderr[-3000:]}"}
        found.append({"target": at.partition(" ")[0], "faults": 1, "found": [last]})
    return found
