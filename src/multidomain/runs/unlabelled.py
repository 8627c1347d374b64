"""Domains without labels, or with few: what their predictions rest on, and whether to trust them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from multidomain.data.corpus import Corpus
from multidomain.data.splits import Split
from multidomain.errors import Note
from multidomain.evaluation.evaluate import Evaluation
from multidomain.methods.history import ClassPrior
from multidomain.methods.priors.settings import described, resolved_priors
from multidomain.metrics import rows_of_each
from multidomain.training.data import training_data
from multidomain.training.train import Trained

_WIDE = 0.5  # width of an interval that says little
_APART = 0.2  # share of rows in which the shared part and the whole model differ
_MOST_ROWS = 5000  # of a domain's text that are predicted
WORTH_LABELLING = 30


class ClassShare(NamedTuple):
    """The share of a class in a domain: as assumed, with its interval or where it is from, and as predicted."""

    name: str
    prior: str
    interval: str
    predicted: str


@dataclass(frozen=True)
class UnlabelledDomain:
    """A domain with few labels or none.

    Attributes
    ----------
    domain, labels
        Its name, and how many labels training had.
    assumed
        The class prior that was assumed or estimated; None if there is none.
    predicted
        Share of each class among the predictions for its text.
    disagreement
        Share of the rows for which the shared part alone predicts another class; None if the model has none.
    """

    domain: str
    labels: int
    assumed: ClassPrior | None
    predicted: dict[str, float]
    disagreement: float | None

    @property
    def shares(self) -> list[ClassShare]:
        """Return the shares of each class, as people read them."""
        if self.assumed is None:
            return [ClassShare(name, "", "", f"{share:.0%}") for name, share in self.predicted.items()]
        a = self.assumed
        return [
            ClassShare(
                name,
                f"{a.prior[name]:.0%}",
                f"{a.low[name]:.0%} to {a.high[name]:.0%}" if a.source == "estimate" else a.source,
                f"{share:.0%}",
            )
            for name, share in self.predicted.items()
        ]

    @property
    def doubts(self) -> list[str]:
        """Return what speaks against trusting the predictions."""
        doubts = []
        if self.assumed and max(self.assumed.high[c] - self.assumed.low[c] for c in self.assumed.prior) > _WIDE:
            doubts.append("its class prior is uncertain")
        if self.disagreement is not None and self.disagreement > _APART:
            doubts.append(f"the shared part alone predicts another class for {self.disagreement:.0%} of its rows")
        return doubts

    @property
    def verdict(self) -> str:
        """Return one sentence on whether to trust the predictions."""
        had = "no labels" if not self.labels else f"{self.labels} labels"
        if self.doubts:
            return f"'{self.domain}' had {had}, and {' and '.join(self.doubts)}: check its predictions before use."
        return f"'{self.domain}' had {had}; there are no warning signs, but only labels can confirm its predictions."

    @property
    def note(self) -> Note | None:
        """Return a warning with a way out, if there is a doubt."""
        if not self.doubts:
            return None
        return Note(
            self.verdict,
            f"Label about {WORTH_LABELLING} of its rows: 'multidomain label-next' picks the most informative ones.",
            kind="uncertain-domain",
        )


def unlabelled_domains(trained: Trained, corpus: Corpus, split: Split) -> list[UnlabelledDomain]:
    """Describe the domains with few labels or none; priors that the method does not estimate are estimated here."""
    model, priors = trained.model, dict(trained.history.class_priors)
    without = set(model.domains) - set(model.labelled_domains)
    if not priors and without and model.requirements.featurizer == "ngrams":
        data = training_data(corpus, split, model.features, trained.encoded)
        priors = described(resolved_priors("estimate", data, data.text_without_labels), "estimate", data)
    names = [name for name in model.domains if name in priors or name in without]
    rows = np.unique(np.concatenate([split.train, split.unlabelled, split.test]))
    rows_of = {name: rows[here] for name, here in rows_of_each(corpus.domains[rows]).items()}
    labels = Counter(corpus.domains[split.train[corpus.labelled[split.train]]])
    return [
        _described(trained, corpus, name, rows_of.get(name, rows[:0]), labels[name], priors.get(name)) for name in names
    ]


def predicted_in(domains: Sequence[UnlabelledDomain], scores: Evaluation) -> list[UnlabelledDomain]:
    """Return the domains that were scored, with the class shares that were predicted there."""
    predicted = {score.domain: score.predicted_shares for score in scores.domains}
    return [replace(one, predicted=predicted[one.domain] or {}) for one in domains if one.domain in predicted]


def _described(
    trained: Trained, corpus: Corpus, name: str, rows: np.ndarray, labels: int, assumed: ClassPrior | None
) -> UnlabelledDomain:
    model = trained.model
    if len(rows) > _MOST_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(rows, _MOST_ROWS, replace=False))
    answers = trained.probabilities(corpus, rows).argmax(axis=1)
    shares = np.bincount(answers, minlength=len(model.classes)) / len(rows)
    disagreement = None
    if model.requirements.unseen_domains:
        shared = model.probabilities(trained.encoded[rows], model.resolve_domains(None, len(rows)).codes)
        disagreement = float((shared.argmax(axis=1) != answers).mean())
    return UnlabelledDomain(
        domain=name,
        labels=labels,
        assumed=assumed,
        predicted={str(c): float(share) for c, share in zip(model.classes, shares, strict=True)},
        disagreement=disagreement,
    )
