"""Development accuracy of a method with given settings: what choices are made on. Test rows are not looked at.

Trains on Amazon, run 0 of the 5-fold protocol or with an unlabelled target (source-dev), and appends one JSON record
for each seed to ``results/development.jsonl``; runs that have a record are not repeated. Settings are given as for
``multidomain train``.

    python benchmarks/development.py lr --features counts
    python benchmarks/development.py mlp --set category=domain-specific --set norm=none --seeds 11-13
    python benchmarks/development.py msda --set noise=0.9 --target books
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer

from multidomain.cli import assignments
from multidomain.corpus import kfold_split, load_corpus
from multidomain.evaluation import evaluate
from multidomain.experiments.commands import seed_numbers
from multidomain.experiments.protocols import UnlabelledTarget
from multidomain.experiments.records import append_record, code_hash, is_of, read_records
from multidomain.pipeline import FeatureSettings, RunSettings, train_model
from multidomain.runs import machine
from multidomain.training.loop import TrainingSettings

RESULTS = Path(__file__).parents[1] / "results" / "development.jsonl"


def main(
    method: str,
    settings: Annotated[list[str] | None, typer.Option("--set")] = None,
    features: str | None = None,
    seeds: str = "11",
    target: str | None = None,
) -> None:
    torch.set_num_threads(1)
    corpus = load_corpus("amazon")
    place = {"fold": 0} if target is None else {"target": target, "selection": "source-dev", "target_text": "train"}
    split = kfold_split(corpus, 0) if target is None else UnlabelledTarget().split(corpus, place)
    split = replace(split, test=split.test[:0])
    reached = []
    for seed in seed_numbers(seeds):
        run = RunSettings(
            method=method,
            method_settings=assignments(settings or []),
            features=FeatureSettings(weighting=features),
            training=TrainingSettings(seed=seed),
        )
        identity = {"place": place, "data": corpus.content_hash(), "config": run.complete()}
        record = next((past for past in read_records(RESULTS) if is_of(past, identity)), None)
        if record is None:
            trained = train_model(corpus, split, run)
            dev = {score.domain: score.accuracy for score in evaluate(trained.model, corpus, split.dev).domains}
            chosen = {"chosen": trained.history.chosen, "best_epoch": trained.history.best_epoch or None}
            record = {**identity, **chosen, "dev": dev, "code": code_hash(), "machine": machine()}
            append_record(RESULTS, record)
        reached.append(100 * float(np.mean(list(record["dev"].values()))))
    shown = " ".join(f"{value:.2f}" for value in reached)
    print(f"{method} {settings or ''} {features or ''} {place}: dev {np.mean(reached):.2f} ({shown})", flush=True)


if __name__ == "__main__":
    typer.run(main)
