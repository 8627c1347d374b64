"""How good a model is, domain by domain."""

from __future__ import annotations

import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.metrics import f1_score

from multidomain.data.corpus import Corpus
from multidomain.data.values import ONLY_DOMAIN
from multidomain.errors import DataError, NoDomainGiven, quoted
from multidomain.evaluation.invariance import Invariance, measure_invariance
from multidomain.model.model import Model, UnknownDomain


@dataclass(frozen=True)
class DomainScore:
    """Scores of the labelled rows of one domain, and what is had more cheaply."""

    domain: str
    had_labels: bool  # in training
    rows: int
    accuracy: float
    macro_f1: float
    shared_accuracy: float | None = None  # from the shared features alone
    majority_accuracy: float | None = None  # of the class that is most frequent in training


@dataclass(frozen=True)
class Evaluation:
    """Scores by domain, in the order of the corpus."""

    domains: list[DomainScore]

    @property
    def accuracy(self) -> float:
        """Return the mean over domains, each domain counting the same (as in the paper)."""
        return float(np.mean([score.accuracy for score in self.domains]))

    def mean(self, name: str) -> float | None:
        """Return the mean over domains of a score by its name, None if it was not measured."""
        values = [getattr(score, name) for score in self.domains]
        return None if None in values else float(np.mean(values))

    @property
    def macro_f1(self) -> float:
        """Return the mean over domains."""
        return float(np.mean([score.macro_f1 for score in self.domains]))

    def as_json(self) -> dict[str, Any]:
        """Return the scores and their means as JSON can hold them."""
        measured = [{name: value for name, value in asdict(s).items() if value is not None} for s in self.domains]
        return {"domains": measured, "accuracy": self.accuracy, "macro_f1": self.macro_f1}


def evaluate(
    model: Model,
    corpus: Corpus,
    rows: np.ndarray,
    unknown_domain: UnknownDomain = "shared",
    *,
    train: np.ndarray | None = None,
) -> Evaluation:
    """Score the labelled ones among `rows` of a corpus; with the training rows, beside simpler answers."""
    rows = rows[corpus.labelled[rows]]
    if not len(rows):
        raise DataError(f"There is nothing to score: none of these rows of '{corpus.name}' has a label.")
    truth, domains = corpus.labels[rows], corpus.domains[rows]
    strange = sorted(set(truth) - set(model.classes), key=str)
    if strange:
        first = rows[list(truth).index(strange[0])]
        raise DataError(
            f"{corpus.where(first)}: the model knows {quoted(model.classes)}, not {quoted(strange)}. "
            "Correct the labels or leave these rows out."
        )
    predicted = model.predict(corpus.documents[rows], domains, unknown_domain)
    simpler = {} if train is None else _simpler_answers(model, corpus, rows, train)
    scores = []
    for name in dict.fromkeys(domains):
        here = domains == name
        y, answer = truth[here].astype(str), predicted[here].astype(str)
        scores.append(
            DomainScore(
                domain=name,
                had_labels=name in model.labelled_domains,
                rows=int(here.sum()),
                accuracy=float((y == answer).mean()),
                macro_f1=float(f1_score(y, answer, average="macro", zero_division=0)),
                **{name: float((truth[here] == answers[here]).mean()) for name, answers in simpler.items()},
            )
        )
    return Evaluation(scores)


def _simpler_answers(model: Model, corpus: Corpus, rows: np.ndarray, train: np.ndarray) -> dict[str, np.ndarray]:
    """Answers from the shared features alone, where the method has any, and of the most frequent class.

    A domain without labels gets the class that is most frequent in all of training.
    """
    train = train[corpus.labelled[train]]
    overall = Counter(corpus.labels[train]).most_common(1)[0][0]
    of_domain = {}
    for name in dict.fromkeys(corpus.domains[rows]):
        labels = corpus.labels[train[corpus.domains[train] == name]]
        of_domain[name] = Counter(labels).most_common(1)[0][0] if len(labels) else overall
    answers = {"majority_accuracy": np.array([of_domain[name] for name in corpus.domains[rows]], dtype=object)}
    if model.domains == (ONLY_DOMAIN,):  # which an answer without a domain is taken to be of
        return answers
    with warnings.catch_warnings(), suppress(DataError):  # a domain-specific model refuses
        warnings.simplefilter("ignore", NoDomainGiven)
        answers["shared_accuracy"] = model.predict(corpus.documents[rows])
    return answers


def invariance(model: Model, corpus: Corpus, rows: np.ndarray, seed: int = 0) -> Invariance | None:
    """Measure how well the domains of held-out text can be told by the model's shared features."""
    code_of = {name: code for code, name in enumerate(dict.fromkeys(corpus.domains[rows]))}
    features = model.shared_features(corpus.documents[rows]) if len(rows) else None
    if features is None:
        return None
    codes = np.array([code_of[name] for name in corpus.domains[rows]])
    return measure_invariance(features, codes, len(code_of), seed)
