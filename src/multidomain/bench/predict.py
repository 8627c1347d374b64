"""Prediction speed from CSV to CSV, compared with scikit-learn on the same n-grams, and peak memory by file size."""

from __future__ import annotations

import csv
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import LinearSVC

from multidomain.bench.memory import command_cost
from multidomain.data.columns import Columns
from multidomain.data.corpus import Corpus
from multidomain.data.splits import Split, holdout_split
from multidomain.errors import ConfigError
from multidomain.model.batch import predict_file, without_collection
from multidomain.model.model import Model
from multidomain.threads import use_threads
from multidomain.training.settings import RunSettings
from multidomain.training.train import train_model

_NGRAM_RANGE, _MAX_FEATURES = (1, 3), 500_000
_ROWS_AT_A_TIME = 4096


@dataclass(frozen=True)
class Laps:
    """Seconds of each repeat, on the wall clock and of CPU time."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)

    def add(self, job: Callable[[], object]) -> None:
        """Run a job and add its time."""
        began, began_cpu = time.perf_counter(), time.process_time()
        job()
        self.seconds.append(time.perf_counter() - began)
        self.cpu_seconds.append(time.process_time() - began_cpu)


@dataclass(frozen=True)
class PredictionSpeed:
    """Time for one file, of a method with one and with two threads, and of scikit-learn with one."""

    method: str
    rows: int
    one_thread: Laps
    two_threads: Laps
    sklearn: Laps


@dataclass(frozen=True)
class PredictionMemory:
    """Cost of the command in its own process."""

    rows: int
    seconds: float
    peak_mb: float


def measure_prediction(corpus: Corpus, method: str, rows: int, repeats: int, folder: Path) -> PredictionSpeed:
    """Train a method and its peer on a corpus, then run each in turn on a file of its texts, repeated to `rows` rows.

    The model is left in the folder, under the name of its method.
    """
    if not corpus.is_text:
        raise ConfigError(f"'{corpus.name}' has vectors, and the benchmark begins with text. Choose a corpus of texts.")
    split = holdout_split(corpus)
    ngrams = {"weighting": "tfidf", "max_features": _MAX_FEATURES, "ngram_range": _NGRAM_RANGE}
    model = train_model(corpus, split, RunSettings(method=method, features={"ngrams": ngrams})).model
    model.save(folder / method)
    peer = _trained_peer(corpus, split)
    source, target = folder / "in.csv", folder / "out.csv"
    write_rows(corpus, source, rows)
    speed = PredictionSpeed(method, rows, Laps(), Laps(), Laps())
    for repeat in range(repeats + 1):
        if repeat == 1:  # the first loads and compiles
            speed = PredictionSpeed(method, rows, Laps(), Laps(), Laps())
        speed.one_thread.add(lambda: _predict(model, source, target, threads=1))
        speed.sklearn.add(lambda: _predict_with_sklearn(peer, source, target))
        speed.two_threads.add(lambda: _predict(model, source, target, threads=2))
    use_threads(1)
    return speed


def measure_memory(corpus: Corpus, method: str, rows: int, folder: Path) -> PredictionMemory:
    """Run ``multidomain predict`` with a model in the folder on a file of `rows` rows, in its own process."""
    source, target = folder / "in.csv", folder / "out.csv"
    write_rows(corpus, source, rows)
    return PredictionMemory(rows, *command_cost("predict", str(folder / method), str(source), "-o", str(target)))


def write_rows(corpus: Corpus, path: Path, rows: int) -> None:
    """Write the texts of a corpus as CSV, repeated to `rows` rows."""
    texts = itertools.cycle(zip(corpus.documents, corpus.domains, strict=True))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text", "domain"])
        writer.writerows([i, *next(texts)] for i in range(rows))


def _predict(model: Model, source: Path, target: Path, threads: int) -> None:
    use_threads(threads)
    with without_collection():
        predict_file(model, source, target, Columns())


def _trained_peer(corpus: Corpus, split: Split) -> Pipeline:
    vectorizer = TfidfVectorizer(ngram_range=_NGRAM_RANGE, max_features=_MAX_FEATURES, sublinear_tf=True)
    labelled = split.train[corpus.labelled[split.train]]
    return make_pipeline(vectorizer, LinearSVC()).fit(corpus.documents[labelled], corpus.labels[labelled].astype(str))


def _predict_with_sklearn(peer: Pipeline, source: Path, target: Path) -> None:
    use_threads(1)
    with source.open(newline="", encoding="utf-8") as read, target.open("w", newline="", encoding="utf-8") as write:
        rows, writer = csv.DictReader(read), csv.writer(write)
        while chunk := list(itertools.islice(rows, _ROWS_AT_A_TIME)):
            predicted = peer.predict([row["text"] for row in chunk])
            writer.writerows([*row.values(), label] for row, label in zip(chunk, predicted, strict=True))
