"""Training the default method beside what scikit-learn offers for the same task."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from multidomain.bench.generated import generated_corpus
from multidomain.bench.memory import peak_memory_mb
from multidomain.data.corpus import Corpus
from multidomain.data.splits import Split, holdout_split
from multidomain.threads import use_threads

_COSTS = (0.1, 0.3, 1.0, 3.0)  # those that the default method tries
_NGRAMS = {"ngram_range": (1, 3), "max_features": 500_000, "min_df": 2}


@dataclass(frozen=True)
class TrainingCost:
    """What a process took from its start to its predictions on test rows."""

    cpu_seconds: float
    seconds: float
    peak_mb: float
    accuracy: float


@dataclass(frozen=True)
class Comparison:
    """Both on the same generated rows, in turns."""

    rows: int
    words: int
    domains: int
    ours: list[TrainingCost]
    sklearn: list[TrainingCost]

    @property
    def ratio(self) -> float:
        """Return the ratio of the median CPU seconds."""
        ours, theirs = (np.median([cost.cpu_seconds for cost in costs]) for costs in (self.ours, self.sklearn))
        return float(ours / theirs)


def compare_default(rows: int, words: int, domains: int, repeats: int) -> Comparison:
    """Train both on generated texts, one thread, each in a process of its own; texts take no part in the time."""
    measured: dict[Callable[..., np.ndarray], list[TrainingCost]] = {_predicted_by_us: [], _predicted_by_sklearn: []}
    for _ in range(repeats):
        for predicted, costs in measured.items():
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                costs.append(pool.apply(_cost, (predicted, rows, words, domains)))
    return Comparison(rows, words, domains, *measured.values())


def _cost(predicted: Callable[[Corpus, Split], np.ndarray], rows: int, words: int, domains: int) -> TrainingCost:
    use_threads(1)
    before, began = time.process_time(), time.monotonic()
    corpus = generated_corpus(rows, words, domains)
    split = holdout_split(corpus)
    generating = (time.process_time() - before, time.monotonic() - began)
    answers = predicted(corpus, split)
    return TrainingCost(
        cpu_seconds=time.process_time() - generating[0],
        seconds=time.monotonic() - began - generating[1],
        peak_mb=peak_memory_mb(),
        accuracy=float((answers == corpus.labels[split.test]).mean()),
    )


def _predicted_by_us(corpus: Corpus, split: Split) -> np.ndarray:
    from multidomain.training.settings import RunSettings
    from multidomain.training.train import train_model

    trained = train_model(corpus, split, RunSettings(features={"ngrams": {"min_df": _NGRAMS["min_df"]}}))
    best = trained.probabilities(corpus, split.test).argmax(axis=1)
    return np.array(trained.model.classes)[best]


def _predicted_by_sklearn(corpus: Corpus, split: Split) -> np.ndarray:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.svm import LinearSVC

    vectorizer = TfidfVectorizer(**_NGRAMS, sublinear_tf=True)
    x = vectorizer.fit_transform(corpus.documents[split.train])
    y, x_dev, y_dev = corpus.labels[split.train], vectorizer.transform(corpus.documents[split.dev]), split.dev
    fitted = [LinearSVC(C=C).fit(x, y.astype(str)) for C in _COSTS]
    best = max(fitted, key=lambda machine: (machine.predict(x_dev) == corpus.labels[y_dev]).mean())
    return best.predict(vectorizer.transform(corpus.documents[split.test]))
