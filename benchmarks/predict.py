"""Memory and speed of ``multidomain predict`` on CSV files of growing size.

Trains a small model on the built-in corpus, writes CSV files of short texts, predicts each in a process of its own and
prints rows per second and the peak memory of that process. Appends a JSON record to ``results/predict.jsonl``.

    python benchmarks/predict.py --rows 10000 100000 1000000
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from multidomain.corpus import load_corpus
from multidomain.runs import machine

RESULTS = Path(__file__).parents[1] / "results" / "predict.jsonl"


def write_rows(path: Path, rows: int) -> None:
    corpus = load_corpus("demo")
    texts = itertools.cycle(zip(corpus.documents, corpus.domains, strict=True))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text", "domain"])
        writer.writerows([i, *next(texts)] for i in range(rows))


def measured(command: list[str]) -> tuple[float, float]:
    """Run a command; return its seconds and its peak memory in MB."""
    began = time.monotonic()
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return time.monotonic() - began, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    sizes = parser.parse_args().rows
    multidomain = [sys.executable, "-m", "multidomain.cli"]
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        train = [*multidomain, "train", "demo", "-o", str(model), "--epochs", "2"]
        subprocess.run(train, check=True, capture_output=True)
        points = []
        for rows in sizes:
            source, target = Path(folder) / "in.csv", Path(folder) / "out.csv"
            write_rows(source, rows)
            seconds, peak = measured([*multidomain, "predict", str(model), str(source), "-o", str(target)])
            with target.open(newline="", encoding="utf-8") as file:
                written = sum(1 for _ in csv.reader(file)) - 1
            assert written == rows, (written, rows)
            points.append({"rows": rows, "seconds": round(seconds, 2), "peak_mb": round(peak)})
            print(f"{rows:>9,} rows  {rows / seconds:>8,.0f} rows/s  peak {peak:,.0f} MB")
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as file:
        file.write(json.dumps({"points": points, "machine": machine()}) + "\n")


if __name__ == "__main__":
    main()
