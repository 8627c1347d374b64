"""Feature augmentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field
from scipy.sparse import csr_matrix, hstack

from multidomain.methods.base import FitContext
from multidomain.methods.data import Examples, TrainingData
from multidomain.methods.linear.base import C_GRID, LinearMethod, Weights, solve_one
from multidomain.methods.registry import register
from multidomain.methods.task import Task
from multidomain.objectives.margin import Loss
from multidomain.settings import Settings

_PAPER = "Daumé III 2007, Frustratingly Easy Domain Adaptation"


class FeatureAugmentationSettings(Settings):
    """Settings; `C` of None is chosen on the dev set."""

    loss: Loss = Field("lr", description="lr or svm")
    C: float | None = Field(None, gt=0, description="weight of the loss; by default chosen on the dev set")


@register(
    "fa-lr",
    "logistic regression on features and a copy of them for each domain",
    paper=_PAPER,
    fixed={"loss": "lr"},
)
@register(
    "fa-svm",
    "support vector machine on features and a copy of them for each domain",
    paper=_PAPER,
    fixed={"loss": "svm"},
)
class FeatureAugmentation(LinearMethod):
    r"""A linear model on shared features and a copy of them per domain.

    A document `x` of domain `d` becomes `x` followed by one block per labelled domain, all zero except block `d`,
    which is `x` again:

    .. math::
        \min_{w_0, v_d, b} \tfrac12 \|w_0\|^2 + \tfrac12 \sum_d \|v_d\|^2
        + C \sum_d \sum_i \ell(y_i, x_i \cdot (w_0 + v_d) + b)

    with the logistic loss (``fa-lr``) or the squared hinge (``fa-svm``). A domain without labels has
    :math:`v_d = 0`.

    Paper
    -----
    H. Daumé III. Frustratingly Easy Domain Adaptation. ACL 2007.

    Symbols
    -------
    w_0, v_d : weights of the shared features and of the copies
    C : weight of the loss

    Departures
    ----------
    Several domains instead of one source and one target. The bias of ``fa-svm`` is penalised like a weight.

    Examples
    --------
    >>> from multidomain import MultiDomainClassifier
    >>> texts = ["a fine pan", "a poor pan", "a fine book", "a poor book"] * 12
    >>> labels, domains = ["good", "bad"] * 24, ["pans", "pans", "books", "books"] * 12
    >>> model = MultiDomainClassifier("fa-lr", random_state=0)
    >>> model.fit(texts, labels, domains=domains).predict(["such a fine pan"], domains=["pans"])
    array(['good'], dtype='<U4')
    """

    settings_type = FeatureAugmentationSettings
    settings: FeatureAugmentationSettings

    def __init__(self, task: Task, settings: FeatureAugmentationSettings):
        super().__init__(task, settings, own_weights=True)
        self.calibrates = settings.loss != "lr"

    def candidates(self) -> Sequence[Mapping[str, Any]]:
        return [{"C": C} for C in (C_GRID if self.settings.C is None else [self.settings.C])]

    def solve(self, data: TrainingData, values: Mapping[str, Any], context: FitContext) -> Weights:
        return solve_augmented(self.task, data.labelled, self.settings.loss, values["C"], mu=1.0)


def solve_augmented(task: Task, rows: Examples, loss: Loss | Literal["hinge"], C: float, mu: float) -> Weights:
    """Solve on features divided by the root of `mu`, followed by an unscaled copy per labelled domain."""
    assert rows.y is not None
    x, n, share = rows.x, task.n_inputs, mu**-0.5
    weight, bias = solve_one(loss, _augmented(x, rows.d, task.labelled, share), rows.y, rows.weight, task.n_classes, C)
    blocks = weight.reshape(1 + len(task.labelled), n, task.n_classes)
    out = np.repeat(blocks[:1] * share, 1 + len(task.domains), axis=0)
    for block, d in enumerate(task.labelled, start=1):
        out[1 + d] += blocks[block]
    return Weights(out, np.repeat(bias[None], len(out), axis=0))


def _augmented(x: csr_matrix, d: np.ndarray, labelled: Sequence[int], share: float) -> csr_matrix:
    block_of = np.full(max(labelled) + 1, -1)
    block_of[list(labelled)] = np.arange(len(labelled))
    row_of = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
    columns = x.indices + block_of[d[row_of]] * x.shape[1]
    own = csr_matrix((x.data, columns, x.indptr), shape=(x.shape[0], x.shape[1] * len(labelled)))
    return hstack([x * share, own], format="csr")
