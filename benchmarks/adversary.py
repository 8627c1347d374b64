"""Does the adversary work? A probe on shared features after equally many epochs, with and without it.

Trains on Amazon, fold 0, for a fixed number of epochs, keeps the last weights, and measures how well a fresh
discriminator tells the domains of held-out text by the shared features. Appends one JSON record a run to
``results/adversary.jsonl``; runs that have a record are not repeated.

    python benchmarks/adversary.py --epochs 14
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from multidomain.data.named.registry import load_corpus
from multidomain.data.splits import kfold_split
from multidomain.evaluation.evaluate import evaluate_corpus, invariance
from multidomain.experiments.records import append_record, is_of, read_records
from multidomain.runs.machine import machine
from multidomain.threads import use_threads
from multidomain.training.settings import RunSettings, TrainingSettings
from multidomain.training.train import train_model

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
    use_threads(1)
    corpus = load_corpus("amazon")
    split = kfold_split(corpus, 0)
    held_out = np.concatenate([split.dev, split.test])
    without_dev = replace(split, dev=split.dev[:0])  # so that the weights of the last epoch are kept
    for name, method_settings in VARIANTS.items():
        settings = RunSettings(
            method=arguments.method,
            method_settings=method_settings,
            training=TrainingSettings(seed=arguments.seed, max_epochs=arguments.epochs),
        )
        identity = {"variant": name, "data": corpus.content_hash(), "config": settings.complete()}
        if any(is_of({**past, "config": past["settings"]}, identity) for past in read_records(RESULTS)):
            print(f"{name}: has a record")
            continue
        trained = train_model(corpus, without_dev, settings, also_encode=split.dev)
        measured = invariance(trained.model, corpus, held_out, trained.encoded[held_out], arguments.seed)
        scores, _ = evaluate_corpus(trained.model, corpus, split.test)
        record = {"variant": name, "data": corpus.content_hash(), "settings": settings.complete()}
        record |= {"invariance": asdict(measured), "test_accuracy": scores.accuracy, "machine": machine()}
        append_record(RESULTS, record)
        print(
            f"{name}: probe {measured.accuracy:.1%}, {measured.nats:.3f} nats, test {record['test_accuracy']:.2%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
