"""Base of linear methods: weights per domain, selection on the dev set, scikit-learn's solvers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_matrix

from multidomain.errors import TrainingError
from multidomain.methods.base import ArraySpec, FitContext, Method, Requirements
from multidomain.methods.calibration import NEVER, best_scale
from multidomain.methods.data import Examples, TrainingData
from multidomain.methods.history import History
from multidomain.methods.linear_form import LinearForm
from multidomain.methods.pruning import largest, narrowed
from multidomain.methods.selection import dev_rows, dev_score, fit_best
from multidomain.methods.task import Task
from multidomain.metrics import two_class_scores
from multidomain.objectives.margin import Loss
from multidomain.settings import Settings

C_GRID = tuple(float(f"{10**power:.2g}") for power in np.arange(-3, 3.5, 0.5))


@dataclass(frozen=True)
class Weights:
    """Linear scores of several domains.

    `weight` has the shape (copies, columns, classes), `bias` (copies, classes). The first copy is for documents of
    unknown domains, the others are for the domains in the order of their codes; a single copy serves all.
    """

    weight: np.ndarray
    bias: np.ndarray

    def scores(self, examples: Examples) -> np.ndarray:
        """Return class scores of rows of known domains, shape (rows, classes)."""
        x = examples.x
        if len(self.weight) == 1:
            return x @ self.weight[0] + self.bias[0]
        scores = np.zeros((len(examples), self.bias.shape[1]))
        for d in np.unique(examples.d):
            here = examples.d == d
            scores[here] = x[here] @ self.weight[1 + d] + self.bias[1 + d]
        return scores


class LinearMethod(Method):
    """Base of methods whose scores are linear in the features, with weights per domain or for all.

    A subclass fits given hyperparameters (`solve`) and lists those to try (`candidates`). Scores that are not
    log-odds (`calibrates`) are calibrated by temperature scaling on the dev set, which does not change the
    predictions.
    """

    calibrates = False
    weight: np.ndarray
    bias: np.ndarray

    def __init__(self, task: Task, settings: Settings, *, own_weights: bool):
        super().__init__(task, settings)
        self._copies = 1 + len(task.domains) if own_weights else 1

    def arrays(self) -> dict[str, ArraySpec]:
        K = self.task.n_classes
        own = {"weight": ArraySpec((self._copies, self.task.n_inputs, K)), "bias": ArraySpec((self._copies, K))}
        return super().arrays() | own

    @classmethod
    def requirements(cls, settings: Any) -> Requirements:
        return Requirements(features={"weighting": "tfidf"}, prunable=True, linear=True)

    @abstractmethod
    def candidates(self) -> Sequence[Mapping[str, Any]]:
        """Return the hyperparameters to try on the dev set, the strongest regularisation first."""

    @abstractmethod
    def solve(self, data: TrainingData, values: Mapping[str, Any], context: FitContext) -> Weights:
        """Return the weights that minimise the objective."""

    def fit(self, data: TrainingData, context: FitContext) -> History:
        weights, chosen = self.best(data, context)
        self.keep(weights, data.dev)
        return History(chosen=chosen)

    def best(self, data: TrainingData, context: FitContext) -> tuple[Weights, dict[str, Any]]:
        """Return the weights of the best candidate, and the candidate."""
        return fit_best(
            self.candidates(),
            lambda values: self.solve(data, values, context),
            lambda weights: dev_score(weights.scores(data.dev), data.dev, context.metric),
            context,
            n_dev=dev_rows(data.dev, context.metric),
        )

    def keep(self, weights: Weights, dev: Examples) -> None:
        """Set the weights, calibrated if needed."""
        scale = best_scale(weights.scores(dev), dev) if self.calibrates else 1.0
        self.weight = (weights.weight * scale).astype(np.float32)
        self.bias = (weights.bias * scale).astype(np.float32)

    def pruned(self, size: np.ndarray, share: float) -> tuple[Method, np.ndarray]:
        of_class = self.weight - self.weight.mean(axis=2, keepdims=True)  # what all classes share moves no probability
        columns = np.flatnonzero(largest(size * np.abs(of_class).max(axis=(0, 2)), share))
        return narrowed(self, columns, {"weight": self.weight[:, columns]}), columns

    def linear_form(self) -> LinearForm:
        copies, n = 1 + len(self.task.domains), self.task.n_inputs
        own = self.weight[1:] - self.weight[0]
        d, columns = np.nonzero(own.any(axis=2))
        return LinearForm(
            shared=self.weight[0],
            keys=(1 + d) * n + columns,
            private=own[d, columns],
            scale=np.ones(copies, dtype=np.float32),
            bias=np.broadcast_to(self.bias, (copies, self.task.n_classes)),
        )

    def logits(self, x: csr_matrix, d: int | None) -> np.ndarray:
        copy = 0 if d is None or self._copies == 1 else 1 + d
        return x @ self.weight[copy] + self.bias[copy]

    def logits_of_views(self, shared: csr_matrix, private: csr_matrix, d: int | None) -> np.ndarray:
        common = shared @ self.weight[0]
        if d is None or self._copies == 1:
            return common + self.bias[0]
        return common + private @ (self.weight[1 + d] - self.weight[0]) + self.bias[1 + d]


def solve_one(
    loss: Loss | Literal["hinge"], x: csr_matrix, y: np.ndarray, weight: np.ndarray | None, n_classes: int, C: float
) -> tuple[np.ndarray, np.ndarray]:
    r"""Return weights (columns, classes) and bias (classes) that minimise

    .. math:: \tfrac12 \|w\|^2 + C \sum_i \omega_i \ell(y_i, x_i \cdot w + b)

    with the squared error (``ls``), the squared hinge (``svm``), the hinge or the logistic loss (``lr``), by
    scikit-learn in float64, to a tolerance of 1e-6 (lr: mean gradient; ls: relative residual) or 1e-4 (svm: dual). The
    SVMs, solved by liblinear, penalise the bias like a weight. With more than two classes ``lr`` is multinomial, the
    others are one-vs-rest. Two classes have the scores -s/2 and s/2. A class without rows is never predicted.
    """
    from sklearn.linear_model import LogisticRegression, RidgeClassifier  # imported here: prediction must not load it
    from sklearn.svm import LinearSVC

    present = np.unique(y)
    out_weight, out_bias = np.zeros((x.shape[1], n_classes)), np.full(n_classes, NEVER)
    if len(present) == 1:
        out_bias[present] = 0
        return out_weight, out_bias
    solver = {
        "ls": lambda: RidgeClassifier(alpha=0.5 / C, tol=1e-6, solver="sparse_cg"),
        "svm": lambda: LinearSVC(C=C, dual=x.shape[0] < x.shape[1], max_iter=20_000, random_state=0),
        "hinge": lambda: LinearSVC(C=C, loss="hinge", max_iter=20_000, random_state=0),
        "lr": lambda: LogisticRegression(C=C, tol=1e-6, max_iter=10_000),
    }[loss]()
    try:
        solver.fit(x.astype(np.float64), y, sample_weight=weight)
    except ValueError as error:  # features or weights of the loss that are out of all proportion
        raise TrainingError(
            f"The solver gives up: {str(error).strip()}", "Look for very large values among features and settings."
        ) from None
    coefficients, intercepts = np.atleast_2d(solver.coef_), np.atleast_1d(solver.intercept_)
    if len(present) == 2:
        coefficients, intercepts = two_class_scores(coefficients[0]).T, two_class_scores(intercepts[0])
    out_weight[:, present], out_bias[present] = coefficients.T, intercepts
    return out_weight, out_bias
