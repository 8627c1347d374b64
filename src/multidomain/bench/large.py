"""Training and prediction on more rows than fit into memory as Python objects."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from multidomain.bench.generated import generated_rows
from multidomain.errors import MultidomainError
from multidomain.runs.folder import RunFolder

_MOMENT = 0.2  # seconds between two looks at the memory


@dataclass(frozen=True)
class CommandCost:
    """What a command took.

    Attributes
    ----------
    peak_mb
        Largest memory, with the pages of files that happened to be in memory.
    peak_own_mb
        Largest memory without pages of files, which the system takes back when it needs them.
    """

    cpu_seconds: float
    seconds: float
    peak_mb: float
    peak_own_mb: float


@dataclass(frozen=True)
class LargeRun:
    """Training on generated rows, and prediction of the same rows."""

    rows: int
    words: int
    domains: int
    train: CommandCost
    predict: CommandCost
    accuracy: float


def measure_large(
    rows: int, words: int, domains: int, folder: Path, *, train_options: Sequence[str], predict_options: Sequence[str]
) -> LargeRun:
    """Write generated rows to a CSV file, then train the default method on it and predict it, by commands."""
    data, model, predicted = folder / "rows.csv", folder / "model", folder / "predicted.csv"
    with data.open("wb") as file:
        for number, (texts, labels, names) in enumerate(generated_rows(rows, words, domains)):
            columns = {"text": texts, "label": labels, "domain": names}
            pl.DataFrame(columns).write_csv(file, include_header=number == 0)
    training = _cost("train", str(data), "-o", str(model), *train_options)
    prediction = _cost("predict", str(model), str(data), "-o", str(predicted), *predict_options)
    ended = RunFolder(model).ended()
    assert ended is not None
    return LargeRun(rows, words, domains, training, prediction, ended["result"]["test"]["accuracy"])


def _cost(*arguments: str) -> CommandCost:
    """Run the command line in its own process, and look at its memory; its progress, on stderr, is shown."""
    began, before = time.monotonic(), os.times()
    process = subprocess.Popen([sys.executable, "-m", "multidomain", *arguments], stdout=subprocess.DEVNULL)
    peak = own = 0.0
    while process.poll() is None:
        now = _memory_mb(process.pid)
        peak, own = max(peak, now.get("VmHWM", 0.0)), max(own, now.get("RssAnon", 0.0))
        time.sleep(_MOMENT)
    after = os.times()
    if process.returncode:
        raise MultidomainError(f"multidomain {' '.join(arguments)} failed; see above.")
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return CommandCost(used, time.monotonic() - began, peak, own)


def _memory_mb(pid: int) -> dict[str, float]:
    """Return the memory of a process by kind; nothing once it has ended, or on other systems than Linux."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    fields = (line.split() for line in lines if line.endswith("kB"))
    return {name.rstrip(":"): int(value) / 1024 for name, value, _ in fields}
