"""Regularised multi-task learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from multidomain.methods.base import FitContext
from multidomain.methods.data import TrainingData
from multidomain.methods.linear.base import C_GRID, LinearMethod, Weights
from multidomain.methods.linear.feature_augmentation import solve_augmented
from multidomain.methods.registry import register
from multidomain.methods.task import Task
from multidomain.settings import Settings

MU_GRID = (1.0, 0.3, 0.1, 3.0)  # ties on the dev set go to the first


class RMTLSettings(Settings):
    """Settings; values of None are chosen on the dev set."""

    C: float | None = Field(None, gt=0, description="weight of the loss; by default chosen on the dev set")
    mu: float | None = Field(None, gt=0, description="penalty on shared weights; by default chosen on the dev set")


@register(
    "rmtl",
    "support vector machine, weights of all domains and a difference for each",
    paper="Evgeniou and Pontil 2004, Regularized Multi-Task Learning",
)
class RMTL(LinearMethod):
    r"""Regularised multi-task learning: each domain's weights are shared weights plus a difference.

    .. math::
        \min_{w_0, v_d, b} \tfrac{\mu}{2} \|w_0\|^2 + \tfrac12 \sum_d \|v_d\|^2
        + C \sum_d \sum_i \max(0, 1 - y_i (x_i \cdot (w_0 + v_d) + b))

    The larger :math:`\mu`, the less the domains share. As the paper shows, this is an SVM on
    :math:`(x / \sqrt\mu, 0, \dots, x, \dots, 0)`, which is how it is solved.

    Paper
    -----
    T. Evgeniou and M. Pontil. Regularized Multi-Task Learning. KDD 2004.

    Symbols
    -------
    w_0, v_d : shared weights, difference of domain d
    C, mu : weight of the loss, penalty on shared relative to domain weights
        (the paper's lambda_1 = T / (2C) and lambda_2 = mu / (2C) for T tasks)

    Departures
    ----------
    One bias for all domains, penalised like a weight; more than two classes are one-vs-rest.

    Examples
    --------
    >>> from multidomain import MultiDomainClassifier
    >>> texts = ["a fine pan", "a poor pan", "a fine book", "a poor book"] * 12
    >>> labels, domains = ["good", "bad"] * 24, ["pans", "pans", "books", "books"] * 12
    >>> model = MultiDomainClassifier("rmtl", random_state=0)
    >>> model.fit(texts, labels, domains=domains).predict(["such a fine pan"], domains=["pans"])
    array(['good'], dtype='<U4')
    """

    settings_type = RMTLSettings
    settings: RMTLSettings
    calibrates = True

    def __init__(self, task: Task, settings: RMTLSettings):
        super().__init__(task, settings, own_weights=True)

    def candidates(self) -> Sequence[Mapping[str, Any]]:
        s = self.settings
        costs: Sequence[float] = C_GRID[::2] if s.C is None else [s.C]
        return [{"C": C, "mu": mu} for C in costs for mu in (MU_GRID if s.mu is None else [s.mu])]

    def solve(self, data: TrainingData, values: Mapping[str, Any], context: FitContext) -> Weights:
        return solve_augmented(self.task, data.labelled, "hinge", values["C"], values["mu"])
