"""Self-training on top of a method that does not learn in epochs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator
from scipy.sparse import csr_matrix, vstack
from scipy.special import softmax

from multidomain.errors import ConfigError
from multidomain.methods.base import FitContext, Method, Requirements
from multidomain.methods.data import Examples, TrainingData
from multidomain.methods.history import History
from multidomain.methods.linear_form import LinearForm
from multidomain.methods.pruning import narrowed
from multidomain.methods.registry import MethodEntry, method_entry, register
from multidomain.methods.task import Task
from multidomain.settings import Searched, Settings


class SelfTrainingSettings(Settings):
    """Which method learns, and how many pseudo-labels it learns from."""

    base: str = Field("fa-lr", description="method that learns")
    base_settings: dict[str, Any] = Field(default_factory=dict, description="settings of that method")
    rounds: int = Field(3, ge=1, description="rounds of self-training")
    share: Annotated[float, Searched("0.1..1")] = Field(
        0.5, gt=0, le=1, description="fraction of pseudo-labels used in the last round"
    )
    weight: Annotated[float, Searched("0.1..1")] = Field(
        0.5, gt=0, description="weight of a pseudo-label beside a label"
    )

    @model_validator(mode="after")
    def _base_can_be_had(self) -> Self:
        self.base_entry().settings(self.base_settings)
        return self

    def base_entry(self) -> MethodEntry:
        """Return the base method, if it can learn from weighted rows."""
        entry = method_entry(self.base)
        asks_for = entry.requirements(entry.settings(self.base_settings))
        if issubclass(entry.method, SelfTraining) or asks_for.in_epochs or asks_for.members:
            raise ConfigError(
                "Self-training needs a base method that does not learn in epochs, such as 'fa-lr' or 'svm', and "
                f"'{self.base}' is none. Choose another 'base'"
            )
        return entry


@register(
    "self-training",
    "a method that does not learn in epochs (setting 'base') and learns from its own most confident predictions",
    paper="Yarowsky 1995, Unsupervised Word Sense Disambiguation Rivaling Supervised Methods",
)
class SelfTraining(Method):
    r"""A method that learns from its own most confident predictions on the unlabelled text, as pseudo-labels.

    Round 0 fits the base method to the labelled rows. Round `r` of `R` takes its predictions on the unlabelled text,
    keeps of each domain and class the most confident fraction :math:`\rho r / R`, and fits the base method to the
    labelled rows and these, which count :math:`\omega`:

    .. math:: \min_\theta \sum_{i \in L} \ell(y_i, x_i; \theta) + \omega \sum_{i \in U_r} \ell(\hat y_i, x_i; \theta)

    with the base method's own regularisation and, in domains without labels, its private weights.

    Paper
    -----
    D. Yarowsky. Unsupervised Word Sense Disambiguation Rivaling Supervised Methods. ACL 1995. Equal shares of the
    classes as in Y. Zou, Z. Yu, B. V. K. V. Kumar and J. Wang. Unsupervised Domain Adaptation for Semantic
    Segmentation via Class-Balanced Self-Training. ECCV 2018.

    Symbols
    -------
    rounds, share, weight : R, rho, omega
    base, base_settings : the method that learns, and its settings

    Departures
    ----------
    Base methods that average over a domain's rows (``mtl-graph``, ``cmsc-*``) do so here too: there :math:`\omega`
    has no effect in a domain without labels, all of whose rows have it.

    Examples
    --------
    >>> from multidomain import MultiDomainClassifier
    >>> texts = ["a fine pan", "a poor pan", "a fine book", "a poor book"] * 12
    >>> labels, domains = ["good", "bad"] * 24, ["pans", "pans", "books", "books"] * 12
    >>> labels[2::4] = labels[3::4] = [None] * 12  # nobody has labelled the books
    >>> model = MultiDomainClassifier("self-training", method_settings={"base": "svm"}, random_state=0)
    >>> model.fit(texts, labels, domains=domains).predict(["such a fine pan"], domains=["pans"])
    array(['good'], dtype=object)
    """

    settings_type = SelfTrainingSettings
    settings: SelfTrainingSettings

    def __init__(self, task: Task, settings: SelfTrainingSettings):
        super().__init__(task, settings)
        entry = settings.base_entry()
        # In later rounds every domain has labels or pseudo-labels.
        everywhere = replace(task, labelled=tuple(range(len(task.domains))))
        base_settings = entry.settings(settings.base_settings)
        self.base = entry.build(everywhere, base_settings)

    def parts(self) -> Mapping[str, Method]:
        return {"base": self.base}

    @classmethod
    def requirements(cls, settings: SelfTrainingSettings) -> Requirements:
        entry = settings.base_entry()
        base = entry.method.requirements(entry.settings(settings.base_settings))
        return replace(base, unlabelled_text=True, any_size=False)

    def fit(self, data: TrainingData, context: FitContext) -> History:
        s = self.settings
        unlabelled = data.text.select(~data.text_has_label)
        learner = s.base_entry().build(self.task, self.base.settings)
        if not len(unlabelled):
            raise ConfigError(
                "Self-training learns from unlabelled text, and there is none.",
                f"Give some (a row without a label is enough), or use {{method={s.base}}}.",
            )
        history = learner.fit(data, context.with_values(round=0))
        for number in range(1, s.rounds + 1):
            answers = _answers(learner, unlabelled)
            sure = most_confident(answers, unlabelled.d, s.share * number / s.rounds)
            taught = unlabelled.select(sure)
            taught = replace(taught, y=answers[sure].argmax(axis=1), weight=np.full(len(sure), s.weight))
            rows = _together(data.labelled, taught)
            learner = self.base
            data_of_round = replace(data, task=learner.task, labelled=rows)
            history = learner.fit(data_of_round, context.with_values(round=number))
        return history

    def pruned(self, size: np.ndarray, share: float) -> tuple[Method, np.ndarray]:
        base, columns = self.base.pruned(size, share)
        return narrowed(self, columns, {f"base.{name}": array for name, array in base.weights().items()}), columns

    def linear_form(self) -> LinearForm:
        return self.base.linear_form()

    def logits(self, x: csr_matrix, d: int | None) -> np.ndarray:
        return self.base.logits(x, d)

    def logits_of_views(self, shared: csr_matrix, private: csr_matrix, d: int | None) -> np.ndarray:
        return self.base.logits_of_views(shared, private, d)


def most_confident(probabilities: np.ndarray, d: np.ndarray, share: float) -> np.ndarray:
    """Return the rows with the most confident predictions, a `share` of each domain and class, at least one."""
    answer, sureness = probabilities.argmax(axis=1), probabilities.max(axis=1)
    chosen = []
    for domain in np.unique(d):
        for y in np.unique(answer[d == domain]):
            rows = np.flatnonzero((d == domain) & (answer == y))
            wanted = max(1, round(share * len(rows)))
            chosen.append(rows[np.argsort(-sureness[rows], kind="stable")[:wanted]])
    return np.sort(np.concatenate(chosen))


def _answers(method: Method, rows: Examples) -> np.ndarray:
    """Class probabilities of rows of known domains."""
    out = np.empty((len(rows), method.task.n_classes), dtype=np.float32)
    for d in np.unique(rows.d):
        here = np.flatnonzero(rows.d == d)
        out[here] = softmax(method.logits(rows.x[here], int(d)), axis=1)
    return out


def _together(a: Examples, b: Examples) -> Examples:
    assert a.y is not None and b.y is not None and b.weight is not None
    x = vstack([a.x, b.x], format="csr")
    weight = np.ones(len(a)) if a.weight is None else a.weight
    return Examples(x, np.r_[a.d, b.d], np.r_[a.y, b.y], np.r_[weight, b.weight])
