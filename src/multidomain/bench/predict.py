"""Prediction speed from CSV to CSV, compared with scikit-learn, and peak memory by file size."""

from __future__ import annotations

import csv
import itertools
import time
from dataclasses import dataclass
from pathlib import Path

from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline

from multidomain.bench.memory import command_cost
from multidomain.data.columns import Columns
from multidomain.data.corpus import Corpus
from multidomain.data.splits import holdout_split
from multidomain.errors import ConfigError
from multidomain.model.batch import predict_file
from multidomain.training.train import RunSettings, train_model

MODEL = "model"
_ROWS_AT_A_TIME = 4096


@dataclass(frozen=True)
class PredictionSpeed:
    """Seconds of both for one file, per repeat."""

    rows: int
    seconds: list[float]
    sklearn_seconds: list[float]


@dataclass(frozen=True)
class PredictionMemory:
    """Cost of the command in its own process."""

    rows: int
    seconds: float
    peak_mb: float


def measure_prediction(corpus: Corpus, rows: int, repeats: int, folder: Path) -> PredictionSpeed:
    """Train both on a corpus, then run each in turn on a file of its texts, repeated to `rows` rows.

    The model is left in the folder.
    """
    if not corpus.is_text:
        raise ConfigError(f"'{corpus.name}' has vectors, and the benchmark begins with text. Choose a corpus of texts.")
    split = holdout_split(corpus)
    settings = RunSettings.parse({"training": {"max_epochs": 1}})
    model = train_model(corpus, split, settings).model
    model.save(folder / MODEL)
    peer = make_pipeline(CountVectorizer(ngram_range=(1, 2), max_features=5000), LogisticRegression(max_iter=200))
    labelled = split.train[corpus.labelled[split.train]]
    peer.fit(corpus.documents[labelled], corpus.labels[labelled].astype(str))
    source, target = folder / "in.csv", folder / "out.csv"
    write_rows(corpus, source, rows)
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        began = time.perf_counter()
        predict_file(model, source, target, Columns())
        between = time.perf_counter()
        _predict_with_sklearn(peer, source, target)
        seconds[0].append(between - began)
        seconds[1].append(time.perf_counter() - between)
    return PredictionSpeed(rows, *seconds)


def measure_memory(corpus: Corpus, rows: int, folder: Path) -> PredictionMemory:
    """Run ``multidomain predict`` with the model in the folder on a file of `rows` rows, in its own process."""
    source, target = folder / "in.csv", folder / "out.csv"
    write_rows(corpus, source, rows)
    return PredictionMemory(rows, *command_cost("predict", str(folder / MODEL), str(source), "-o", str(target)))


def write_rows(corpus: Corpus, path: Path, rows: int) -> None:
    """Write the texts of a corpus as CSV, repeated to `rows` rows."""
    texts = itertools.cycle(zip(corpus.documents, corpus.domains, strict=True))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text", "domain"])
        writer.writerows([i, *next(texts)] for i in range(rows))


def _predict_with_sklearn(peer: Pipeline, source: Path, target: Path) -> None:
    with source.open(newline="", encoding="utf-8") as read, target.open("w", newline="", encoding="utf-8") as write:
        rows, writer = csv.DictReader(read), csv.writer(write)
        while chunk := list(itertools.islice(rows, _ROWS_AT_A_TIME)):
            predicted = peer.predict([row["text"] for row in chunk])
            writer.writerows([*row.values(), label] for row, label in zip(chunk, predicted, strict=True))
