"""Least squares, support vector machine and logistic regression, for all domains or for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from pydantic import Field
from torch import Tensor

from multidomain.methods.base import Task, Tried
from multidomain.methods.data import TrainingData
from multidomain.methods.linear.base import C_GRID, LinearMethod, Weights, solve_one
from multidomain.nn.sparse import SparseBatch
from multidomain.objectives.margin import Loss
from multidomain.settings import Settings


class LinearSettings(Settings):
    """Settings of linear models; `C` of None is chosen on development rows."""

    category: Literal["shared", "domain-specific"] = "shared"
    loss: Loss = "lr"
    C: float | None = Field(None, gt=0)


class Linear(LinearMethod):
    r"""One linear model for all domains, or one for each.

    .. math:: \min_{w, b} \tfrac12 \|w\|^2 + C \sum_i \ell(y_i, x_i \cdot w + b)

    with the squared error (``ls``), the squared hinge (``svm``) or the logistic loss (``lr``), over the labelled rows
    of all domains (shared) or, with a `w` of its own, of each (domain-specific). `C` is chosen on development rows,
    for each domain its own where there is a model for each.

    Paper
    -----
    The first rows of Table 1, quoted there from F. Wu and Y. Huang. Collaborative Multi-Domain Sentiment
    Classification. ICDM 2015.

    Symbols
    -------
    w, b : weights and bias
    C : weight of the loss

    Departures
    ----------
    The hinge is squared, as is scikit-learn's default, and its bias is penalised like a weight.
    """

    settings_type = LinearSettings
    settings: LinearSettings

    def __init__(self, task: Task, settings: LinearSettings):
        self._domain_specific = settings.category == "domain-specific"
        super().__init__(task, settings, own_weights=self._domain_specific)
        if self._domain_specific:
            task.check_labels_everywhere()
        self.calibrates = settings.loss != "lr"

    def candidates(self) -> Sequence[Mapping[str, Any]]:
        return [{"C": C} for C in (C_GRID if self.settings.C is None else [self.settings.C])]

    def solve(self, data: TrainingData, values: Mapping[str, Any]) -> Weights:
        rows = data.labelled
        assert rows.y is not None
        weight, bias = solve_one(
            self.settings.loss, rows.x.matrix(), rows.y, rows.weight, self.task.n_classes, values["C"]
        )
        return Weights(weight[None], bias[None])

    def fit(self, data: TrainingData, tried: Tried) -> dict[str, Any]:
        if not self._domain_specific:
            return super().fit(data, tried)
        chosen: dict[str, Any] = {}
        weight, bias = np.zeros(self.weight.shape), np.zeros(self.bias.shape)
        for d, name in enumerate(self.task.domains):
            labelled, dev = (rows.where(rows.d == d) for rows in (data.labelled, data.dev))
            here = replace(data, labelled=labelled, dev=dev)
            fitted, values = self.best(here, partial(_tried_in, tried, name))
            weight[1 + d], bias[1 + d] = fitted.weight[0], fitted.bias[0]
            chosen[name] = values["C"]
        self.keep(Weights(weight, bias), data.dev)
        return {"C": chosen}

    def logits(self, x: SparseBatch, d: int | None) -> Tensor:
        if d is None and self._domain_specific:
            raise self.task.unknown_domain()
        return super().logits(x, d)


def _tried_in(tried: Tried, domain: str, values: Mapping[str, Any], accuracy: float | None) -> None:
    tried({"domain": domain, **values}, accuracy)
