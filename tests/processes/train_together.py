"""Trains networks with as many processes as torchrun starts; the first writes losses and weights to a folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from multidomain.data.corpus import Corpus
from multidomain.data.splits import Split
from multidomain.data.values import corpus_from_rows
from multidomain.nn.sparse import SparseMatrix
from multidomain.processes import rank
from multidomain.training.settings import RunSettings
from multidomain.training.train import train_model

MLP = {"hidden": (16, 8), "shared_size": 8, "lr": 0.01}
WORDS = {"shared_size": 8, "lr": 0.01, "dimension": 8}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "man-nll": ("man-nll", {**MLP, "private_size": 6, "k": 3}),
    "man-l2, norm per domain": ("man-l2", {**MLP, "private_size": 6, "norm": "per-domain"}),
    "sp": ("sp", {**MLP, "private_size": 6}),
    "can": ("can", {**MLP, "private_size": 6}),
    "mdan": ("mdan-hmax", MLP),
    "cnn": ("man-nll", {**WORDS, "private_size": 6, "extractor": "cnn", "filters": 5}),
    "asp-mtl": ("asp-mtl", {**WORDS, "private_size": 6, "state": 6}),
}
EPOCHS, BATCH = 3, 4


def corpus() -> Corpus:
    """Three domains of different sizes; the last has no labels."""
    random, rows = np.random.default_rng(0), []
    for domain, size in (("books", 24), ("pans", 32), ("shoes", 28)):
        for i in range(size):
            praise = i % 2 == 0
            words = random.choice([f"{domain}{k}" for k in range(8)] + [f"word{k}" for k in range(20)], 6)
            rows.append((f"{' '.join(words)} {'good' if praise else 'bad'}{i % 3}", "yes" if praise else "no", domain))
    return corpus_from_rows(*map(list, zip(*rows, strict=True)))


def split(documents: Corpus) -> Split:
    parts: dict[str, list[int]] = {"train": [], "dev": [], "test": [], "unlabelled": []}
    for row, domain in enumerate(documents.domains):
        parts["unlabelled" if domain == "shoes" else "dev" if row % 4 == 3 else "train"].append(row)
    return Split(**parts, rule="own")  # type: ignore[arg-type]


def run(case: str, dropout: float = 0.0) -> dict[str, Any]:
    """Losses of all epochs, and the weights at the end."""
    method, settings = CASES[case]
    documents = corpus()
    run_settings = RunSettings(
        method=method,
        method_settings={**settings, "dropout": dropout},
        features={"sequences": {"vectors": "random"}} if "dimension" in settings else {},
        training={"max_epochs": EPOCHS, "patience": EPOCHS, "batch_size": BATCH, "seed": 3, "clip_norm": 1.0},
        objective={"class_weight": {"yes": 2.0, "no": 1.0}},
    )
    trained = train_model(documents, split(documents), run_settings, device="cpu")
    return {
        "epochs": [dict(epoch.log) for epoch in trained.history.epochs],
        "dev": [epoch.dev_accuracy for epoch in trained.history.epochs],
        "best": trained.history.best_epoch,
        "weights": {name: torch.tensor(value) for name, value in trained.model.method.weights().items()},
    }


@contextmanager
def doubles() -> Iterator[None]:
    """Let networks compute in double precision, so that what differs by rounding can be told from what is wrong."""
    single = torch.get_default_dtype(), SparseMatrix.__init__.__defaults__
    torch.set_default_dtype(torch.float64)
    SparseMatrix.__init__.__defaults__ = ("cpu", torch.float64)  # type: ignore[misc]
    try:
        yield
    finally:
        torch.set_default_dtype(single[0])
        SparseMatrix.__init__.__defaults__ = single[1]  # type: ignore[misc]


def run_all(folder: Path) -> None:
    """Write what comes of each case in double precision and without dropout."""
    with doubles():
        for case in CASES:
            result = run(case)
            weights = result.pop("weights")
            save_file(weights, folder / f"{case} {rank()}.safetensors")
            (folder / f"{case} {rank()}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    run_all(folder)
    noisy = run("man-nll", dropout=0.4)
    save_file(noisy["weights"], folder / f"dropout {rank()}.safetensors")
