"""Evaluation of a model, domain by domain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from multidomain.data.corpus import Corpus
from multidomain.data.values import ONLY_DOMAIN
from multidomain.errors import DataError, Note, quoted
from multidomain.evaluation.invariance import Invariance, measure_invariance
from multidomain.methods.linear.base import solve_one
from multidomain.metrics import accuracy, by_domain, domain_mean, macro_f1, rows_of_each
from multidomain.model.model import Model, UnknownDomain
from multidomain.training.data import EncodedRows

BASELINES = ("shared_accuracy", "majority_accuracy", "lr_accuracy")
_MOST_LR_ROWS = 1_000_000
_PLAIN_C = 1.0  # scikit-learn's default: what five minutes would give


@dataclass(frozen=True)
class DomainScore:
    """Scores of the labelled rows of one domain, with baselines."""

    domain: str
    had_labels: bool  # in training
    rows: int
    accuracy: float
    macro_f1: float
    shared_accuracy: float | None = None  # from the shared features alone
    majority_accuracy: float | None = None  # of the class that is most frequent in training
    lr_accuracy: float | None = None  # of a plain logistic regression on the same features
    label_shares: dict[str, float] | None = None  # of each class among the labels
    predicted_shares: dict[str, float] | None = None


@dataclass(frozen=True)
class Evaluation:
    """Scores by domain, in the order of the corpus."""

    domains: list[DomainScore]

    @property
    def accuracy(self) -> float:
        """Return the unweighted mean over domains, as in the paper."""
        return domain_mean(score.accuracy for score in self.domains)

    def mean(self, name: str) -> float | None:
        """Return the mean over domains of a score by its name, None if it was not measured."""
        values = [getattr(score, name) for score in self.domains]
        return None if None in values else domain_mean(values)

    @property
    def macro_f1(self) -> float:
        """Return the mean over domains."""
        return domain_mean(score.macro_f1 for score in self.domains)

    def with_baselines(self, of_domain: Mapping[str, Mapping[str, Any]]) -> Evaluation:
        """Return the same scores beside those of baselines, which are given by domain."""
        return Evaluation([replace(score, **of_domain.get(score.domain, {})) for score in self.domains])

    def as_json(self) -> dict[str, Any]:
        """Return the scores and their means as JSON-compatible values."""
        measured = [{name: value for name, value in asdict(s).items() if value is not None} for s in self.domains]
        return {"domains": measured, "accuracy": self.accuracy, "macro_f1": self.macro_f1}


def labelled_rows(model: Model, corpus: Corpus, rows: np.ndarray) -> np.ndarray:
    """Return the labelled rows among some rows of a corpus; labels unknown to the model are an error."""
    rows = rows[corpus.labelled[rows]]
    if not len(rows):
        raise DataError(f"There is nothing to score: none of these rows of '{corpus.name}' has a label.")
    unknown = sorted(set(corpus.labels[rows]) - set(model.classes), key=str)
    if unknown:
        first = rows[list(corpus.labels[rows]).index(unknown[0])]
        raise DataError(
            f"{corpus.where(first)}: the model knows {quoted(model.classes)}, not {quoted(unknown)}.",
            "Correct the labels or drop these rows.",
        )
    return rows


def evaluate(
    model: Model,
    corpus: Corpus,
    rows: np.ndarray,
    probabilities: np.ndarray,
    *,
    baselines: Mapping[str, np.ndarray] | None = None,
) -> Evaluation:
    """Score predictions on labelled rows of a corpus.

    Parameters
    ----------
    probabilities
        What the model predicts for the rows, shape (rows, classes).
    baselines
        Class names that the baselines predict, by the name of their score; see `baselines`.
    """
    y, domains = corpus.labels[rows].astype(str), corpus.domains[rows]
    predicted = _class_names(model, probabilities)
    accuracies, f1 = (by_domain(score, y, predicted, domains) for score in (accuracy, macro_f1))
    of_baselines = {name: by_domain(accuracy, y, other, domains) for name, other in (baselines or {}).items()}
    classes = [str(name) for name in model.classes]
    had_labels = set(model.labelled_domains)
    return Evaluation(
        [
            DomainScore(
                domain=name,
                had_labels=name in had_labels,
                rows=len(here),
                accuracy=accuracies[name],
                macro_f1=f1[name],
                label_shares=_shares(y[here], classes),
                predicted_shares=_shares(predicted[here], classes),
                **{baseline: scores[name] for baseline, scores in of_baselines.items()},
            )
            for name, here in rows_of_each(domains).items()
        ]
    )


def evaluate_corpus(
    model: Model, corpus: Corpus, rows: np.ndarray, unknown_domain: UnknownDomain = "shared"
) -> tuple[Evaluation, tuple[Note, ...]]:
    """Predict and score the labelled rows among some rows of a corpus; return notes on domains too."""
    rows = labelled_rows(model, corpus, rows)
    domains = model.resolve_domains(list(corpus.domains[rows]), len(rows), unknown_domain)
    probabilities = model.probabilities(model.encode(corpus.documents[rows]), domains.codes)
    return evaluate(model, corpus, rows, probabilities), domains.notes


def baselines(
    model: Model, corpus: Corpus, rows: np.ndarray, encoded: EncodedRows, train: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the predictions of the baselines: the shared features alone, the majority class, and a plain LR.

    A domain without labels gets the class that is most frequent in all of training. The logistic regression, on the
    same n-grams and all labelled rows at once (of very many, a million), is there if some domain has no labels.

    Parameters
    ----------
    encoded
        All rows as the model encodes them.
    train
        Training rows.
    """
    x = encoded[rows]
    train = train[corpus.labelled[train]]
    overall = Counter(corpus.labels[train]).most_common(1)[0][0]
    labels_of = {name: corpus.labels[train[here]] for name, here in rows_of_each(corpus.domains[train]).items()}
    most_frequent = {name: Counter(labels).most_common(1)[0][0] for name, labels in labels_of.items()}
    majority = np.array([most_frequent.get(name, overall) for name in corpus.domains[rows]]).astype(str)
    predicted = {"majority_accuracy": majority}
    # A model of one domain takes a document without a domain to be of that one.
    if model.requirements.unseen_domains and model.domains != (ONLY_DOMAIN,):
        codes = model.resolve_domains(None, len(rows)).codes
        predicted["shared_accuracy"] = _class_names(model, model.probabilities(x, codes))
    if model.requirements.featurizer == "ngrams" and set(model.domains) != set(model.labelled_domains):
        if len(train) > _MOST_LR_ROWS:
            train = np.sort(np.random.default_rng(0).choice(train, _MOST_LR_ROWS, replace=False))
        y = np.array([model.classes.index(label) for label in corpus.labels[train]])
        weight, bias = solve_one("lr", encoded[train], y, None, len(model.classes), C=_PLAIN_C)
        predicted["lr_accuracy"] = _class_names(model, x @ weight + bias)
    return predicted


def _shares(names: np.ndarray, classes: Sequence[str]) -> dict[str, float]:
    return {name: float((names == name).mean()) for name in classes}


def _class_names(model: Model, probabilities: np.ndarray) -> np.ndarray:
    return np.array(model.classes).astype(str)[probabilities.argmax(axis=1)]


def invariance(model: Model, corpus: Corpus, rows: np.ndarray, x: csr_matrix, seed: int = 0) -> Invariance | None:
    """Measure how well a probe predicts the domain of held-out text from the model's shared features."""
    code_of = {name: code for code, name in enumerate(dict.fromkeys(corpus.domains[rows]))}
    features = model.shared_features(x) if len(rows) else None
    if features is None:
        return None
    codes = np.array([code_of[name] for name in corpus.domains[rows]])
    return measure_invariance(features, codes, len(code_of), seed)
