"""Self-training on top of a method that is fitted at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from scipy.sparse import vstack
from torch import Tensor

from multidomain.errors import ConfigError
from multidomain.methods.base import FittedMethod, Task, Tried
from multidomain.methods.data import Examples, TrainingData
from multidomain.nn.sparse import SparseBatch, SparseMatrix
from multidomain.settings import Settings

if TYPE_CHECKING:
    from multidomain.methods.registry import MethodEntry


class SelfTrainingSettings(Settings):
    """Which method learns, and how much of its own answers it learns from."""

    base: str = "fa-lr"
    base_settings: dict[str, Any] = Field(default_factory=dict)
    rounds: int = Field(3, ge=1)
    share: float = Field(0.5, gt=0, le=1)
    weight: float = Field(0.5, gt=0)

    @model_validator(mode="after")
    def _base_can_be_had(self) -> Self:
        self.base_entry().settings(self.base_settings)
        return self

    def base_entry(self) -> MethodEntry:
        """Return the base method, if it is one that is fitted at once."""
        from multidomain.methods.registry import method_entry  # here: the registry knows this method too

        entry = method_entry(self.base)
        if not issubclass(entry.method, FittedMethod) or issubclass(entry.method, SelfTraining):
            raise ConfigError(
                "Self-training needs a base method that is fitted at once, such as 'fa-lr' or 'svm', and "
                f"'{self.base}' is not. Choose another 'base'"
            )
        return entry


class SelfTraining(FittedMethod):
    r"""A method that learns from its own most confident answers to the unlabelled text.

    Round 0 fits the base method to the labelled rows. Round `r` of `R` takes its answers to the unlabelled text, keeps
    of each domain and class the most confident share :math:`\rho r / R`, and fits the base method to the labelled rows
    and these, which count :math:`\omega`:

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
    """

    settings_type = SelfTrainingSettings
    settings: SelfTrainingSettings

    def __init__(self, task: Task, settings: SelfTrainingSettings):
        super().__init__(task, settings)
        entry = settings.base_entry()
        # In later rounds every domain has labels, its own or the method's.
        everywhere = replace(task, labelled=tuple(range(len(task.domains))))
        base_settings = entry.settings(settings.base_settings)
        self.base = entry.build(everywhere, base_settings)

    def fit(self, data: TrainingData, tried: Tried) -> dict[str, Any]:
        s = self.settings
        unlabelled = data.text.where(~data.text_has_label)
        learner = s.base_entry().build(self.task, self.base.settings)
        if not len(unlabelled):
            raise ConfigError(
                "Self-training learns from unlabelled text, and there is none. Give some (a row without a label is "
                f"enough), or train '{s.base}'."
            )
        assert isinstance(learner, FittedMethod) and isinstance(self.base, FittedMethod)
        chosen = learner.fit(data, _of_round(tried, 0))
        for number in range(1, s.rounds + 1):
            answers = _answers(learner, unlabelled)
            sure = most_confident(answers, unlabelled.d, s.share * number / s.rounds)
            taught = unlabelled.where(sure)
            taught = replace(taught, y=answers[sure].argmax(axis=1), weight=np.full(len(sure), s.weight))
            rows = _together(data.labelled, taught)
            learner = self.base
            chosen = learner.fit(replace(data, task=learner.task, labelled=rows), _of_round(tried, number))
        return chosen

    def logits(self, x: SparseBatch, d: int | None) -> Tensor:
        return self.base.logits(x, d)

    def logits_of_views(self, shared: SparseBatch, private: SparseBatch, d: int | None) -> Tensor:
        return self.base.logits_of_views(shared, private, d)


def most_confident(probabilities: np.ndarray, d: np.ndarray, share: float) -> np.ndarray:
    """Return the numbers of the rows whose answer is among the surest `share` of its domain and class, at least one."""
    answer, sureness = probabilities.argmax(axis=1), probabilities.max(axis=1)
    chosen = []
    for domain in np.unique(d):
        for y in np.unique(answer[d == domain]):
            rows = np.flatnonzero((d == domain) & (answer == y))
            wanted = max(1, round(share * len(rows)))
            chosen.append(rows[np.argsort(-sureness[rows], kind="stable")[:wanted]])
    return np.sort(np.concatenate(chosen))


def _answers(method: FittedMethod, rows: Examples) -> np.ndarray:
    """Class probabilities of rows of known domains."""
    out = np.empty((len(rows), method.task.n_classes), dtype=np.float32)
    for d in np.unique(rows.d):
        here = np.flatnonzero(rows.d == d)
        out[here] = torch.softmax(method.logits(rows.x.take(here), int(d)), dim=1).numpy()
    return out


def _together(a: Examples, b: Examples) -> Examples:
    assert a.y is not None and b.y is not None and b.weight is not None
    x = SparseMatrix(vstack([a.x.matrix(), b.x.matrix()], format="csr"), a.x.device)
    weight = np.ones(len(a)) if a.weight is None else a.weight
    return Examples(x, np.r_[a.d, b.d], np.r_[a.y, b.y], np.r_[weight, b.weight])


def _of_round(tried: Tried, number: int) -> Tried:
    def tell(values: Mapping[str, Any], accuracy: float | None) -> None:
        tried({"round": number, **values}, accuracy)

    return tell
