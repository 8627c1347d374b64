"""Small studies, and an engine that runs their trials in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from multidomain.engines.base import Engine, Outcome
from multidomain.runs.config import TrainConfig
from multidomain.runs.plan import plan_run
from multidomain.tuning.tune import Study, plan_study

NETWORK = {
    "method": "man-nll",
    "settings": {"hidden": (8,), "shared_size": 4, "private_size": 4, "lr": 0.03},
    "training": {"max_epochs": 6, "patience": 6, "checkpoint_seconds": 0},
}


class Here(Engine):
    """Runs one task after the other."""

    def __exit__(self, *exception: object) -> None:
        pass

    def map(self, function: Callable[[Any], Any], tasks: Iterable[Any], *, ahead: int = 2) -> Iterator[Outcome[Any]]:
        for task in tasks:
            try:
                yield Outcome(task, function(task))
            except Exception as error:
                yield Outcome(task, error=error)


def write_reviews(path: Path) -> Path:
    """Reviews in two domains whose class a few words tell, in most rows."""
    rng = np.random.default_rng(0)
    words = {"good": ["fine", "superb", "lovely"], "bad": ["poor", "awful", "weak"]}
    rows = []
    for i in range(160):
        label, domain = ("good", "bad")[i % 2], ("books", "pans")[i // 2 % 2]
        told = label if rng.random() < 0.85 else ("good", "bad")[1 - i % 2]
        text = " ".join([str(rng.choice(words[told])), domain, *map(str, rng.choice(40, 4))])
        rows.append((f"{text} no{i}", label, domain, ("train", "train", "dev", "test")[i // 4 % 4]))
    columns = ["text", "label", "domain", "split"]
    pl.DataFrame(rows, schema=columns, orient="row").write_csv(path)
    return path


def small_study(folder: Path, search: Sequence[str], trials: int, *, prune: bool = True, **config: Any) -> Study:
    """A study of a small network; its data are beside it."""
    data = folder.parent / "reviews.csv"
    if not data.exists():
        write_reviews(data)
    parsed = TrainConfig.parse_all({"data": str(data), "output": str(folder), **(NETWORK | config)})
    return plan_study(plan_run(parsed), search, trials, prune=prune)
