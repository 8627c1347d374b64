"""Fuzzes every reader, and folders of models and runs, once and at length; nothing but success or a clear error counts.

Appends one record to ``results/reliability.jsonl``: inputs by reader, how many were read and refused, and the faults,
which are printed too. The targets and mutations are those of ``tests/faults/inputs``.

    python benchmarks/input_faults.py            # 20,700 inputs: some ten minutes on one core
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from multidomain.code import code_hash
from multidomain.experiments.records import append_record
from multidomain.runs.machine import machine

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "reliability.jsonl"
sys.path.insert(0, str(ROOT / "tests" / "faults" / "inputs"))

from fuzzing import CASES, fuzzed  # noqa: E402
from readers import TARGETS  # noqa: E402


def main(count: int = 900, seed: str = "long", save: Annotated[bool, typer.Option()] = True) -> None:
    began, readers, faults = time.monotonic(), {}, []
    with tempfile.TemporaryDirectory() as folder:
        (replayed,) = fuzzed(Path(folder) / "replay", seed, f"replay={CASES}")
        faults += [case for case in replayed if case["what"] not in ("read", "refused")]
        for name in TARGETS:  # each in a process of its own
            (found,) = fuzzed(Path(folder) / name, seed, f"{name}={count}")
            faults += found["found"]
            readers[name] = {key: found.get(key, 0) for key in ("read", "refused", "faults", "seconds")}
            print(name, readers[name], flush=True)
    for fault in faults:
        print(fault["case"], fault["what"], sep="\n")
    record: dict[str, Any] = {
        "what": "fuzzed-inputs",
        "seed": seed,
        "inputs": sum(one["read"] + one["refused"] + one["faults"] for one in readers.values()),
        "by_command": len([name for name in TARGETS if TARGETS[name].command(Path())]) * (-(-count // 10)),
        "replayed": len(replayed),
        "tracebacks": len(faults),
        "readers": readers,
        "seconds": round(time.monotonic() - began),
        "code": code_hash(),
        "machine": machine(),
    }
    if save:
        append_record(RESULTS, record)


if __name__ == "__main__":
    typer.run(main)
