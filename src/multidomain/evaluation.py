"""How good a model is, domain by domain."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.metrics import f1_score

from multidomain.corpus import Corpus
from multidomain.errors import DataError, quoted
from multidomain.invariance import Invariance, measure_invariance
from multidomain.model import Model, UnknownDomain


@dataclass(frozen=True)
class DomainScore:
    """Scores of the labelled rows of one domain."""

    domain: str
    had_labels: bool  # in training
    rows: int
    accuracy: float
    macro_f1: float


@dataclass(frozen=True)
class Evaluation:
    """Scores by domain, in the order of the corpus."""

    domains: list[DomainScore]

    @property
    def accuracy(self) -> float:
        """Return the mean over domains, each domain counting the same (as in the paper)."""
        return float(np.mean([score.accuracy for score in self.domains]))

    @property
    def macro_f1(self) -> float:
        """Return the mean over domains."""
        return float(np.mean([score.macro_f1 for score in self.domains]))

    def as_json(self) -> dict[str, Any]:
        """Return the scores and their means as JSON can hold them."""
        return {**asdict(self), "accuracy": self.accuracy, "macro_f1": self.macro_f1}


def evaluate(model: Model, corpus: Corpus, rows: np.ndarray, unknown_domain: UnknownDomain = "shared") -> Evaluation:
    """Score the labelled ones among `rows` of a corpus."""
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
            )
        )
    return Evaluation(scores)


def invariance(model: Model, corpus: Corpus, rows: np.ndarray, seed: int = 0) -> Invariance | None:
    """Measure how well the domains of held-out text can be told by the model's shared features."""
    code_of = {name: code for code, name in enumerate(dict.fromkeys(corpus.domains[rows]))}
    features = model.shared_features(corpus.documents[rows]) if len(rows) else None
    if features is None:
        return None
    codes = np.array([code_of[name] for name in corpus.domains[rows]])
    return measure_invariance(features, codes, len(code_of), seed)
