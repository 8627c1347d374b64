"""Accuracy against number of labels, chosen by ``multidomain label-next`` or at random.

Amazon with one domain without labels, its text drawn with half of the rows positive. Rows of the text are labelled in
batches, and after each batch the model is trained again. Appends one JSON record for each target, draw and rule to
``results/label_next.jsonl``; those that have a record are not repeated. Where (``--on``):

pseudo-targets (default)
    What choices are made on: two sources train, the third, whose labels are hidden, is halved; one half is labelled
    bit by bit, the other is measured. Rows of the ``train`` parts only.
targets
    The test rows of each target, as in the protocol `priors`.

Rules: ``label-next``; ``margin``, the most uncertain rows; ``random``. With ``--batch 60 --labels 60`` all labels are
asked for at once.

    python benchmarks/label_next.py --set denoised=0 --set C=0.1
    python benchmarks/label_next.py --on targets --draws 10
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from scipy import stats

from multidomain.cli.train import assignments
from multidomain.code import code_hash
from multidomain.data.corpus import Corpus
from multidomain.data.named.registry import load_corpus
from multidomain.data.splits import Split
from multidomain.data.stratify import parted
from multidomain.experiments.protocols import UnlabelledTarget
from multidomain.experiments.records import append_record, is_of, read_records
from multidomain.experiments.shifted_priors import AmazonShiftedPriors
from multidomain.features.base import Documents
from multidomain.model.model import Model
from multidomain.runs.label_next import label_next, uncertainty
from multidomain.runs.machine import machine
from multidomain.threads import use_threads
from multidomain.training.settings import RunSettings
from multidomain.training.train import train_model

RESULTS = Path(__file__).parents[1] / "results" / "label_next.jsonl"
TARGETS = AmazonShiftedPriors.targets

Rule = Callable[[Model, Corpus, int, np.random.Generator], np.ndarray]
"""A model, the text with the labels so far, how many, and a generator; returns rows to label."""


def by_label_next(model: Model, text: Corpus, n: int, random: np.random.Generator) -> np.ndarray:
    return label_next(model, text, n).rows


def by_margin(model: Model, text: Corpus, n: int, random: np.random.Generator) -> np.ndarray:
    rows = np.flatnonzero(~text.labelled)
    p = model.predict_proba(text.documents[rows], list(text.domains[rows]))
    return rows[np.argsort(-uncertainty(p), kind="stable")[:n]]


def by_chance(model: Model, text: Corpus, n: int, random: np.random.Generator) -> np.ndarray:
    return random.choice(np.flatnonzero(~text.labelled), n, replace=False)


RULES: dict[str, Rule] = {"label-next": by_label_next, "margin": by_margin, "random": by_chance}


@dataclass(frozen=True, eq=False)
class Place:
    """A split without labels in one domain, its text to label, and the rows to measure on."""

    spec: dict[str, Any]
    split: Split
    text: np.ndarray
    measured: np.ndarray


def places(corpus: Corpus, on: str, prevalence: int, draws: int) -> Iterator[Place]:
    """Yield the places, draw by draw."""
    for draw in range(1, draws + 1):
        if on == "targets":
            for target in TARGETS:
                spec = {"target": target, "prevalence": prevalence, "draw": draw}
                split = AmazonShiftedPriors().split(corpus, {**spec, "target_text": "train", "target_labels": 0})
                yield Place(spec, split, split.unlabelled, split.test)
        else:
            for without, pseudo in itertools.permutations(TARGETS, 2):
                yield _pseudo_target(corpus, without, pseudo, draw)


def _pseudo_target(corpus: Corpus, without: str, pseudo: str, draw: int) -> Place:
    spec = {"target": pseudo, "selection": "source-dev", "target_text": "train"}
    split = UnlabelledTarget().split(corpus, spec)
    train, dev = (rows[corpus.domains[rows] != without] for rows in (split.train, split.dev))
    rows = split.unlabelled
    text, measured = parted(corpus, rows, (0.5, 0.5), np.random.default_rng(draw))
    own = replace(split, train=train, dev=dev, unlabelled=text, test=measured)
    return Place({"pseudo_target": pseudo, "without": without, "draw": draw}, own, text, measured)


def curve(
    corpus: Corpus, documents: Documents, place: Place, rule: Rule, run: RunSettings, labels: list[int]
) -> list[float]:
    """Return the accuracy without labels, and with so many."""
    random = np.random.default_rng([place.spec["draw"], 1])
    hidden = np.full(len(place.text), None)
    text = replace(corpus.select(place.text), labels=hidden, parts=None, folds=None)
    reached = []
    for n in [*labels, None]:
        train = np.concatenate([place.split.train, place.text[text.labelled]])
        split = replace(place.split, train=train, unlabelled=place.text[~text.labelled])
        trained = train_model(corpus, split, run, documents=documents)
        best = trained.probabilities(corpus, place.measured).argmax(axis=1)
        reached.append(float((np.array(trained.model.classes)[best] == corpus.labels[place.measured]).mean()))
        if n is not None:
            chosen = rule(trained.model, text, n - int(text.labelled.sum()), random)
            known = text.labels.copy()
            known[chosen] = corpus.labels[place.text[chosen]]
            text = replace(text, labels=known)
    return reached


def shown(rule: str, curves: list[list[float]], draws: int) -> str:
    """Return the mean curve in per cent, with the 95 % interval that the draws give."""
    of_draw = 100 * np.array(curves).reshape(draws, -1, len(curves[0])).mean(axis=1)  # (draws, numbers of labels)
    width = stats.t.ppf(0.975, draws - 1) * of_draw.std(axis=0, ddof=1) / draws**0.5 if draws > 1 else 0 * of_draw[0]
    cells = (f"{mean:6.2f} ±{half:.2f}" for mean, half in zip(of_draw.mean(axis=0), width, strict=True))
    return f"{rule:>10} " + " ".join(cells)


def reached_at(labels: list[int], accuracies: np.ndarray, wanted: float) -> str:
    """Return the number of labels from which on an accuracy is reached, interpolated between batches."""
    for i, accuracy in enumerate(accuracies):
        if accuracy >= wanted:
            if i == 0:
                return "0"
            step = (wanted - accuracies[i - 1]) / (accuracy - accuracies[i - 1])
            return f"{labels[i - 1] + step * (labels[i] - labels[i - 1]):.0f}"
    return f"more than {labels[-1]}"


def main(
    on: str = "pseudo-targets",
    rules: str = "label-next,random",
    settings: Annotated[list[str] | None, typer.Option("--set")] = None,
    method: str = "sped",
    batch: int = 20,
    labels: int = 100,
    draws: int = 3,
    prevalence: int = 50,
) -> None:
    if on not in ("pseudo-targets", "targets"):
        raise typer.BadParameter("expected pseudo-targets or targets")
    use_threads(1)
    corpus = load_corpus("amazon")
    documents, numbers = Documents(corpus.documents), list(range(batch, labels + 1, batch))
    run = RunSettings(method=method, method_settings=assignments(settings or []))
    curves: dict[str, list[list[float]]] = {rule: [] for rule in rules.split(",")}
    for place, rule in itertools.product(places(corpus, on, prevalence, draws), curves):
        identity = {"place": place.spec, "rule": rule, "labels": [0, *numbers], "data": corpus.content_hash()}
        identity["config"] = run.complete()
        record = next((past for past in read_records(RESULTS) if is_of(past, identity)), None)
        if record is None:
            began = time.process_time()
            accuracies = curve(corpus, documents, place, RULES[rule], run, numbers)
            how = {"code": code_hash(), "cpu_seconds": round(time.process_time() - began, 1), "machine": machine()}
            record = {**identity, "accuracy": accuracies, **how}
            append_record(RESULTS, record)
        curves[rule].append(record["accuracy"])
    print(f"{on}, {method} {settings or ''}, {draws} draws; labels: {[0, *numbers]}")
    for rule, of_rule in curves.items():
        print(shown(rule, of_rule, draws), flush=True)
    if {"label-next", "random"} <= curves.keys():
        compare(np.array(curves["label-next"]), np.array(curves["random"]), [0, *numbers], draws)


def compare(ours: np.ndarray, random: np.ndarray, labels: list[int], draws: int) -> None:
    """Print the difference, and how many labels reach the accuracy of random ones: all of them, and the best number."""
    print(shown("difference", (ours - random).tolist(), draws))
    mean = random.mean(axis=0)
    for i in dict.fromkeys([len(labels) - 1, int(mean.argmax())]):
        at = reached_at(labels, ours.mean(axis=0), mean[i])
        print(f"label-next reaches the accuracy of {labels[i]} random labels, {100 * mean[i]:.2f}, with {at} labels")


if __name__ == "__main__":
    typer.run(main)
