"""Graph-regularised multi-task learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field

from multidomain.methods.base import FitContext
from multidomain.methods.data import TrainingData
from multidomain.methods.linear.base import LinearMethod, Weights
from multidomain.methods.linear.graph_solver import RIDGE_GRID, TiedWeights, laplacian
from multidomain.methods.registry import register
from multidomain.methods.task import Task
from multidomain.objectives.margin import Loss
from multidomain.settings import Settings


class MTLGraphSettings(Settings):
    """Settings; values of None are chosen on the dev set."""

    loss: Loss = Field("lr", description="ls, svm or lr")
    rho: float | None = Field(None, gt=0, description="penalty on differences; by default chosen on the dev set")
    ridge: float | None = Field(None, gt=0, description="penalty on weights; by default chosen on the dev set")


@register(
    "mtl-graph",
    "weights of each domain, drawn towards those of the others",
    paper="Zhou et al. 2012, MALSAR: Multi-tAsk Learning via StructurAl Regularization",
)
class MTLGraph(LinearMethod):
    r"""Weights per domain, pulled towards those of every other.

    .. math::
        \min_W \sum_{d \in \Delta_L} \frac{1}{n_d} \sum_i \ell(y_i, x_i \cdot w_d)
        + \rho \sum_{d < e} \|w_d - w_e\|^2 + \eta \sum_d \|w_d\|^2

    A domain without labels takes part only through the graph. The mean of all :math:`w_d` predicts for domains that
    were not in training. Solved by L-BFGS until no partial derivative exceeds 1e-5.

    Paper
    -----
    J. Zhou, J. Chen and J. Ye. MALSAR: Multi-tAsk Learning via StructurAl Regularization. 2012. Section on graph
    structure (``Logistic_SRMTL``).

    Symbols
    -------
    w_d : weights of domain d
    rho, ridge : penalty on differences along the graph's edges, and on the weights (eta)

    Departures
    ----------
    The graph is complete, since none is given. No L1 penalty, which MALSAR optionally adds.
    The bias is the weight of a constant feature; more than two classes are one-vs-rest.

    Examples
    --------
    >>> from multidomain import MultiDomainClassifier
    >>> texts = ["a fine pan", "a poor pan", "a fine book", "a poor book"] * 12
    >>> labels, domains = ["good", "bad"] * 24, ["pans", "pans", "books", "books"] * 12
    >>> model = MultiDomainClassifier("mtl-graph", random_state=0)
    >>> model.fit(texts, labels, domains=domains).predict(["such a fine pan"], domains=["pans"])
    array(['good'], dtype='<U4')
    """

    settings_type = MTLGraphSettings
    settings: MTLGraphSettings

    def __init__(self, task: Task, settings: MTLGraphSettings):
        super().__init__(task, settings, own_weights=True)
        self.calibrates = settings.loss != "lr"

    def candidates(self) -> Sequence[Mapping[str, Any]]:
        s = self.settings
        ridges: Sequence[float] = RIDGE_GRID if s.ridge is None else [s.ridge]
        return [
            {"ridge": ridge, "rho": rho}
            for ridge in ridges
            for rho in ([ridge, round(10 * ridge, 9)] if s.rho is None else [s.rho])
        ]

    def solve(self, data: TrainingData, values: Mapping[str, Any], context: FitContext) -> Weights:
        N = len(self.task.domains)
        A = values["rho"] * laplacian(np.ones((N, N))) + values["ridge"] * np.eye(N)
        problem = TiedWeights(self.task, data.labelled, self.settings.loss, A, penalty=None, prior=None)
        theta = problem.minimum(context)
        return problem.weights(theta, unknown=theta[1:].mean(axis=0))
