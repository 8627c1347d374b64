"""Made-up records of studies: small recipes under the names of ours, and answers that are known."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from multidomain.experiments.recipes import Recipe, Row
from multidomain.experiments.records import Record, pack
from multidomain.experiments.runner import Run, planned_runs
from multidomain.metrics import accuracy, macro_f1

N = 60
DOMAINS = ("books", "dvd", "electronics", "kitchen")
PREVALENCES = (10, 25, 50, 75, 90)
CLASSES = ["negative", "positive"]


def row(category: str, system: str, method: str, seeds: int = 1, **others: Any) -> Row:
    return Row(category=category, system=system, method=method, extractor="mlp", seeds=seeds, **others)


SPED = row("shared-private", "SPED", "sped")
PLAIN = row("shared-private", "SPED without self-training", "sped", settings={"rounds": 0})
LR = row("shared", "LR", "lr")
MAJORITY = row("shared", "majority", "majority")  # reads no text
MAN = row("shared-private", "MAN-NLL-SP-MLP", "man-nll", seeds=2, only={"draw": [1]})
RECIPES = {
    "priors": Recipe(title="Priors", protocol="priors", rows=(SPED, PLAIN, LR, MAJORITY, MAN)),
    "priors-fdu": Recipe(title="Priors elsewhere", protocol="priors-fdu", rows=(SPED, LR)),
    "target-labels": Recipe(title="Target labels", protocol="target-labels", rows=(SPED, LR)),
    "few-labels": Recipe(title="Few labels", protocol="few-labels", rows=(SPED, LR, MAN)),
}
RIGHT = {"SPED": 0.9, "SPED without self-training": 0.86, "LR": 0.8, "majority": 0.5, "MAN-NLL-SP-MLP": 0.78}


def truth(run: Run, domain: str) -> np.ndarray:
    """The same for all systems of a draw: so many per cent are positive."""
    prevalence, draw = run.spec.get("prevalence", 50), run.spec["draw"]
    return np.random.default_rng([prevalence, draw, len(domain)]).permutation(np.arange(N) < N * prevalence / 100) * 1


def record(run: Run, right: float | None = None, **others: Any) -> Record:
    """A record in which about so many rows are answered correctly; it differs by system, seed and split."""
    spec = run.spec
    domains = [spec["target"]] if "target" in spec else list(DOMAINS)
    share = RIGHT[run.row.system] if right is None else right
    seed = json.dumps([run.row.name, run.seed, dict(spec)])
    rng = np.random.default_rng(list(seed.encode()))
    y = {name: truth(run, name) for name in domains}
    answers = {name: np.where(rng.random(N) < share, y[name], 1 - y[name]) for name in domains}
    return {
        **run.identity(),
        "classes": CLASSES,
        "class_priors": _prior(run, rng) if run.row.method == "sped" and "target" in spec else {},
        "test": {name: accuracy(y[name], answers[name]) for name in domains},
        "macro_f1": {name: macro_f1(y[name], answers[name]) for name in domains},
        "calibration_error": {name: float(rng.random() / 10) for name in domains},
        "predictions": {name: pack(codes) for name, codes in answers.items()},
        "truth": {name: pack(codes) for name, codes in y.items()},
        "cpu_seconds": 1.0,
        "data": {"name": "amazon", "sha256": "d" * 64},
        "code": "c" * 64,
        "machine": dict.fromkeys(("multidomain", "python", "torch", "numpy", "scikit-learn", "cpu"), "1.0"),
        **others,
    }


def _prior(run: Run, rng: np.random.Generator) -> dict[str, Any]:
    estimate = float(np.clip(run.spec["prevalence"] / 100 + rng.normal() / 10, 0.01, 0.99))
    shares = {"negative": 1 - estimate, "positive": estimate}
    ends = [{name: share + margin for name, share in shares.items()} for margin in (-0.1, 0.1)]
    source = "labelled" if run.row.system == PLAIN.system else "estimate"
    return {run.spec["target"]: {"source": source, "prior": shares, "low": ends[0], "high": ends[1], "certainty": 1.0}}


def study(name: str, keep: Callable[[Run], bool] = lambda run: True) -> list[Record]:
    """All runs of a study, or some."""
    return [record(run) for run in planned_runs(name, RECIPES[name], (), None) if keep(run)]


def write(path: Path, records: Sequence[Record]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in records), encoding="utf-8")


def lines(page: str, heading: str, part: int = 0) -> dict[str, list[str]]:
    """The cells of a table that begins with some headings, by system (or by its first cell), with no bold."""
    tables, current = [], []
    for line in [*page.splitlines(), ""]:
        if line.startswith("|"):
            current.append([cell.strip().strip("*") for cell in line.strip("|").split("|")])
        elif current:
            tables, current = [*tables, current], []
    found = [table for table in tables if " | ".join(table[0]).startswith(heading)][part]
    key = 1 if found[0][0] == "category" else 0
    return {cells[key].split("<")[0]: cells for cells in found[2:]} | {"": found[0]}
