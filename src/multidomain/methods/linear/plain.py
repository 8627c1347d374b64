"""Least squares, SVM and logistic regression, for all domains or per domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from pydantic import Field
from scipy.sparse import csr_matrix

from multidomain.methods.base import FitContext, Requirements, check_labels_everywhere, unseen_domain_error
from multidomain.methods.data import TrainingData
from multidomain.methods.history import History
from multidomain.methods.linear.base import C_GRID, LinearMethod, Weights, solve_one
from multidomain.methods.registry import register
from multidomain.methods.task import Task
from multidomain.objectives.margin import Loss
from multidomain.settings import Settings

_PAPER = "Wu and Huang 2015, Collaborative Multi-Domain Sentiment Classification"


class LinearSettings(Settings):
    """Settings of linear models; `C` of None is chosen on the dev set."""

    category: Literal["shared", "domain-specific"] = Field(
        "shared", description="one model for all domains (shared), or one for each (domain-specific)"
    )
    loss: Loss = Field("lr", description="ls, svm or lr")
    C: float | None = Field(None, gt=0, description="weight of the loss; by default chosen on the dev set")


@register("ls", "least squares, one for all domains or one for each", paper=_PAPER, fixed={"loss": "ls"})
@register("svm", "support vector machine, one for all domains or one for each", paper=_PAPER, fixed={"loss": "svm"})
@register("lr", "logistic regression, one for all domains or one for each", paper=_PAPER, fixed={"loss": "lr"})
class Linear(LinearMethod):
    r"""One linear model for all domains, or one per domain.

    .. math:: \min_{w, b} \tfrac12 \|w\|^2 + C \sum_i \ell(y_i, x_i \cdot w + b)

    with the squared error (``ls``), the squared hinge (``svm``) or the logistic loss (``lr``), over the labelled rows
    of all domains (shared) or of each, with its own `w` (domain-specific). `C` is chosen on the dev set, per domain
    for domain-specific models.

    Paper
    -----
    The first rows of Table 1, cited there from F. Wu and Y. Huang. Collaborative Multi-Domain Sentiment
    Classification. ICDM 2015.

    Symbols
    -------
    w, b : weights and bias
    C : weight of the loss

    Departures
    ----------
    The hinge is squared, which is scikit-learn's default, and its bias is penalised like a weight.

    Examples
    --------
    >>> from multidomain import MultiDomainClassifier
    >>> texts = ["a fine pan", "a poor pan", "a fine book", "a poor book"] * 12
    >>> labels, domains = ["good", "bad"] * 24, ["pans", "pans", "books", "books"] * 12
    >>> model = MultiDomainClassifier("svm", random_state=0)
    >>> model.fit(texts, labels, domains=domains).predict(["such a fine pan"], domains=["pans"])
    array(['good'], dtype='<U4')
    """

    settings_type = LinearSettings
    settings: LinearSettings

    def __init__(self, task: Task, settings: LinearSettings):
        self._domain_specific = settings.category == "domain-specific"
        super().__init__(task, settings, own_weights=self._domain_specific)
        if self._domain_specific:
            check_labels_everywhere(task)
        self.calibrates = settings.loss != "lr"

    @classmethod
    def requirements(cls, settings: LinearSettings) -> Requirements:
        return replace(super().requirements(settings), unseen_domains=settings.category == "shared")

    def candidates(self) -> Sequence[Mapping[str, Any]]:
        return [{"C": C} for C in (C_GRID if self.settings.C is None else [self.settings.C])]

    def solve(self, data: TrainingData, values: Mapping[str, Any], context: FitContext) -> Weights:
        rows = data.labelled
        assert rows.y is not None
        weight, bias = solve_one(self.settings.loss, rows.x, rows.y, rows.weight, self.task.n_classes, values["C"])
        return Weights(weight[None], bias[None])

    def fit(self, data: TrainingData, context: FitContext) -> History:
        if not self._domain_specific:
            return super().fit(data, context)
        chosen: dict[str, Any] = {}
        copies, K = 1 + len(self.task.domains), self.task.n_classes
        weight, bias = np.zeros((copies, self.task.n_inputs, K)), np.zeros((copies, K))
        for d, name in enumerate(self.task.domains):
            labelled, dev = (rows.select(rows.d == d) for rows in (data.labelled, data.dev))
            here = replace(data, labelled=labelled, dev=dev)
            fitted, values = self.best(here, context.with_values(domain=name))
            weight[1 + d], bias[1 + d] = fitted.weight[0], fitted.bias[0]
            chosen[name] = values["C"]
        self.keep(Weights(weight, bias), data.dev)
        return History(chosen={"C": chosen})

    def logits(self, x: csr_matrix, d: int | None) -> np.ndarray:
        if d is None and self._domain_specific:
            raise unseen_domain_error(self.task)
        return super().logits(x, d)
