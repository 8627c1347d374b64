"""Does the adversary work? A probe on shared features after equally many epochs, with and without it.

Trains on Amazon, fold 0, for a fixed number of epochs, keeps the last weights, and measures how well a fresh
discriminator tells the domains of held-out text by the shared features. Appends one JSON record a run to
``results/adversary.jsonl``; runs that have a record are not repeated.

    python benchmarks/adversary.py --epochs 14
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch

from multidomain.data.named.registry import load_corpus
from multidomain.data.splits import kfold_split
from multidomain.errors import NoDevelopmentRows
from multidomain.evaluation.evaluate import evaluate, invariance
from multidomain.runs.run import machine
from multidomain.training.loop import TrainingSettings
from multidomain.training.train import RunSettings, train_model

RESULTS = Path(__file__).parents[1] / "results" / "adversary.jsonl"
VARIANTS = {
    "adversary": {},
    "no adversary (lam = 0)": {"lam": 0.0},
    "adversary blinded by per-domain norm": {"norm": "per-domain"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--method", default="man-nll")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    corpus = load_corpus("amazon")
    split = kfold_split(corpus, 0)
    held_out = np.concatenate([split.dev, split.test])
    without_dev = replace(split, dev=split.dev[:0])  # so that the weights of the last epoch are kept
    done = [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    for name, method_settings in VARIANTS.items():
        settings = RunSettings(
            method=arguments.method,
            method_settings=method_settings,
            training=TrainingSettings(seed=arguments.seed, max_epochs=arguments.epochs),
        )
        record = {"variant": name, "data": corpus.content_hash(), "settings": settings.complete()}
        if any({key: past[key] for key in record} == record for past in done):
            print(f"{name}: has a record")
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoDevelopmentRows)  # as meant
            trained = train_model(corpus, without_dev, settings)
        measured = invariance(trained.model, corpus, held_out, seed=arguments.seed)
        record["invariance"] = asdict(measured)
        record["test_accuracy"] = evaluate(trained.model, corpus, split.test).accuracy
        record["machine"] = machine()
        with RESULTS.open("a") as file:
            file.write(json.dumps(record) + "\n")
        print(
            f"{name}: probe {measured.accuracy:.1%}, {measured.nats:.3f} nats, test {record['test_accuracy']:.2%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
