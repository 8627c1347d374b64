"""Development accuracy of a method with given settings: what choices are made on. Test rows are not looked at.

Appends one JSON record for each run and seed to ``results/development.jsonl``; runs that have a record are not
repeated. Settings are given as for ``multidomain train``. Where (``--on``):

run0 (default)
    Amazon, run 0 of the 5-fold protocol: trains on folds 2 to 4, is measured on fold 0.
folds
    The same four folds, each in turn held out: four times as many rows to choose on, and none of the test fold.
pseudo-targets
    Amazon without labels in one domain, as in Table 2, but among the sources of a target only: two sources train, the
    third, whose labels are hidden, is measured. No row of the target is read.
priors
    The same with other class priors: half of the third source's rows, resampled, is its unlabelled text, the other
    half is measured.
fdu-mtl
    Its development sets.
books, dvd, electronics or kitchen
    This unlabelled target, measured on the sources' development rows.

    python benchmarks/development.py lr --weighting counts
    python benchmarks/development.py sped --set denoised=0 --on pseudo-targets
    python benchmarks/development.py mlp --set extractor=cnn --on fdu-mtl --max-length 400 --seeds 11-12
"""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from multidomain.cli.reproduce import seed_numbers
from multidomain.cli.train import assignments
from multidomain.code import code_hash
from multidomain.data.corpus import Corpus
from multidomain.data.named.registry import load_corpus
from multidomain.data.splits import Split, given_split, kfold_split
from multidomain.data.stratify import parted
from multidomain.evaluation.evaluate import evaluate_corpus
from multidomain.experiments.protocols import UnlabelledTarget
from multidomain.experiments.records import append_record, is_of, read_records
from multidomain.experiments.shifted_priors import PREVALENCES, resampled
from multidomain.runs.machine import machine
from multidomain.threads import use_threads
from multidomain.training.settings import RunSettings, TrainingSettings
from multidomain.training.train import train_model

RESULTS = Path(__file__).parents[1] / "results" / "development.jsonl"


def cuts(corpus: Corpus, on: str) -> list[tuple[dict[str, Any], Split, np.ndarray]]:
    """Return places, splits without test rows, and the rows to measure on."""
    if on == "fdu-mtl":
        split = given_split(corpus)
        return [({"fdu-mtl": "development sets"}, split, split.dev)]
    assert corpus.folds is not None and corpus.parts is not None
    if on in ("run0", "folds"):
        run0 = kfold_split(corpus, 0)
        rows = np.concatenate([run0.train, run0.dev])
        held_out = [0] if on == "run0" else [int(fold) for fold in np.unique(corpus.folds[rows])]
        splits = {
            j: replace(run0, train=rows[corpus.folds[rows] != j], dev=rows[corpus.folds[rows] == j]) for j in held_out
        }
        return [
            ({"fold": 0} if on == "run0" else {"folds": "0, 2, 3, 4", "dev_fold": j}, split, split.dev)
            for j, split in splits.items()
        ]
    protocol = UnlabelledTarget()
    if on in protocol.targets:
        spec = {"target": on, "selection": "source-dev", "target_text": "train"}
        split = protocol.split(corpus, spec)
        return [(spec, split, split.dev)]
    if on not in ("pseudo-targets", "priors"):
        raise typer.BadParameter("expected run0, folds, pseudo-targets, priors, fdu-mtl or a domain of Amazon")
    out = []
    for target, pseudo in itertools.permutations(protocol.targets, 2):
        spec = {"target": pseudo, "selection": "source-dev", "target_text": "train"}
        split = protocol.split(corpus, spec)
        train, dev = (rows[corpus.domains[rows] != target] for rows in (split.train, split.dev))
        split = replace(split, train=train, dev=dev, transductive=True)
        if on == "priors":
            rows = split.unlabelled
            halves = parted(corpus, rows, (0.5, 0.5), np.random.default_rng(0))
            for prevalence in PREVALENCES:
                random = np.random.default_rng(prevalence)
                text, measured = (resampled(corpus, half, prevalence, random) for half in halves)
                place = {"amazon": "priors", "pseudo_target": pseudo, "without": target, "prevalence": prevalence}
                out.append((place, replace(split, unlabelled=text), measured))
            continue
        out.append(({"amazon": "pseudo-targets", "pseudo_target": pseudo, "without": target}, split, split.unlabelled))
    return out


def given(**settings: Any) -> dict[str, Any]:
    """Return what is not left to the method."""
    return {name: value for name, value in settings.items() if value is not None}


def main(
    method: str,
    settings: Annotated[list[str] | None, typer.Option("--set")] = None,
    weighting: str | None = None,
    max_features: int | None = None,
    ngram_range: Annotated[str | None, typer.Option(metavar="SHORTEST,LONGEST")] = None,
    max_length: int | None = None,
    max_epochs: int = 30,
    batch_size: int = 8,
    seeds: str = "11",
    on: str = "run0",
) -> None:
    use_threads(1)
    corpus = load_corpus("fdu-mtl" if on == "fdu-mtl" else "amazon")
    reached, f1_reached = [], []
    for (spec, split, rows), seed in itertools.product(cuts(corpus, on), seed_numbers(seeds)):
        run = RunSettings(
            method=method,
            method_settings=assignments(settings or []),
            features={
                "ngrams": given(weighting=weighting, max_features=max_features, ngram_range=ngram_range),
                "sequences": given(max_length=max_length),
            },
            training=TrainingSettings(seed=seed, max_epochs=max_epochs, batch_size=batch_size),
        )
        identity = {"place": spec, "data": corpus.content_hash(), "config": run.complete()}
        record = next((past for past in read_records(RESULTS) if is_of(past, identity)), None)
        if record is None:
            began = time.process_time()
            trained = train_model(corpus, replace(split, test=split.test[:0]), run)
            seconds = time.process_time() - began
            scores, _ = evaluate_corpus(trained.model, corpus, rows)
            dev = {score.domain: score.accuracy for score in scores.domains}
            f1 = {score.domain: score.macro_f1 for score in scores.domains}
            chosen = {"chosen": trained.history.chosen, "best_epoch": trained.history.best_epoch or None}
            how = {"code": code_hash(), "cpu_seconds": round(seconds, 1), "machine": machine()}
            record = {**identity, **chosen, "dev": dev, "macro_f1": f1, **how}
            append_record(RESULTS, record)
        reached.append(100 * float(np.mean(list(record["dev"].values()))))
        f1_reached.append(100 * float(np.mean(list(record.get("macro_f1", {"": np.nan}).values()))))
    shown = " ".join(f"{value:.2f}" for value in reached)
    means = f"dev {np.mean(reached):.2f}, macro-F1 {np.mean(f1_reached):.2f}"
    print(f"{method} {settings or ''} {weighting or ''} {on}: {means} ({shown})", flush=True)


if __name__ == "__main__":
    typer.run(main)
