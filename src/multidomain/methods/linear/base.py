"""What linear methods share: weights of several domains, choosing on development rows, scikit-learn's solvers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_matrix
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.svm import LinearSVC
from torch import Tensor, nn

from multidomain.methods.base import FittedMethod, Task, Tried
from multidomain.methods.data import Examples, TrainingData
from multidomain.methods.selection import fit_best, mean_accuracy
from multidomain.nn.kernels.row_sum import row_sum
from multidomain.nn.sparse import SparseBatch
from multidomain.objectives.margin import Loss
from multidomain.settings import Settings

C_GRID = tuple(float(f"{10**power:.2g}") for power in np.arange(-3, 3.5, 0.5))

NEVER = -1e3  # score of a class without rows


@dataclass(frozen=True)
class Weights:
    """Linear scores of several domains.

    `weight` has the shape (copies, columns, classes), `bias` (copies, classes). The first copy is for documents of
    unknown domains, the following ones are for the domains by their codes; a single copy is for all.
    """

    weight: np.ndarray
    bias: np.ndarray

    def scores(self, examples: Examples) -> np.ndarray:
        """Return class scores of rows of known domains, shape (rows, classes)."""
        x = examples.x.matrix()
        if len(self.weight) == 1:
            return x @ self.weight[0] + self.bias[0]
        scores = np.zeros((len(examples), self.bias.shape[1]))
        for d in np.unique(examples.d):
            here = examples.d == d
            scores[here] = x[here] @ self.weight[1 + d] + self.bias[1 + d]
        return scores


class LinearMethod(FittedMethod):
    """Base of methods whose scores are linear in the features, with weights of each domain or of all.

    A subclass solves for given values (`solve`) and names the values to try (`candidates`). Scores that are no
    log-odds (`calibrates`) are multiplied by the one number that fits the development labels best, so that
    probabilities mean something; it does not change the answers.
    """

    calibrates = False

    def __init__(self, task: Task, settings: Settings, *, own_weights: bool):
        super().__init__(task, settings)
        copies = 1 + len(task.domains) if own_weights else 1
        self.weight = nn.Parameter(torch.zeros(copies, task.n_inputs, task.n_classes), requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(copies, task.n_classes), requires_grad=False)

    @abstractmethod
    def candidates(self) -> Sequence[Mapping[str, Any]]:
        """Return the values to choose from on development rows, the strongest regularisation first."""

    @abstractmethod
    def solve(self, data: TrainingData, values: Mapping[str, Any]) -> Weights:
        """Return the weights that minimise the objective."""

    def fit(self, data: TrainingData, tried: Tried) -> dict[str, Any]:
        weights, chosen = self.best(data, tried)
        self.keep(weights, data.dev)
        return chosen

    def best(self, data: TrainingData, tried: Tried) -> tuple[Weights, dict[str, Any]]:
        """Return the weights of the best candidate, and the candidate."""
        return fit_best(
            self.candidates(),
            lambda values: self.solve(data, values),
            lambda weights: mean_accuracy(weights.scores(data.dev), data.dev),
            tried,
            n_dev=len(data.dev),
        )

    def keep(self, weights: Weights, dev: Examples) -> None:
        """Take weights over, calibrated if need be."""
        scale = best_scale(weights.scores(dev), dev) if self.calibrates and len(dev) else 1.0
        self.weight.copy_(torch.from_numpy(weights.weight * scale))
        self.bias.copy_(torch.from_numpy(weights.bias * scale))

    def logits(self, x: SparseBatch, d: int | None) -> Tensor:
        copy = 0 if d is None or len(self.weight) == 1 else 1 + d
        return row_sum(x, self.weight[copy]) + self.bias[copy]

    def logits_of_views(self, shared: SparseBatch, private: SparseBatch, d: int | None) -> Tensor:
        common = row_sum(shared, self.weight[0])
        if d is None or len(self.weight) == 1:
            return common + self.bias[0]
        return common + row_sum(private, self.weight[1 + d] - self.weight[0]) + self.bias[1 + d]


def best_scale(scores: np.ndarray, dev: Examples) -> float:
    """Return the positive number that, multiplied with the scores, makes the labels most probable.

    Rows of a class that is never the answer say nothing about it.
    """
    assert dev.y is not None
    of_label = scores[np.arange(len(dev)), dev.y]
    scores, y = scores[of_label > NEVER / 2], dev.y[of_label > NEVER / 2]
    if not len(y):
        return 1.0

    def loss(log_scale: float) -> float:
        return -log_softmax(np.exp(log_scale) * scores, axis=1)[np.arange(len(y)), y].mean()

    return float(np.exp(minimize_scalar(loss, bounds=(-7, 7), method="bounded").x))


def solve_one(
    loss: Loss | Literal["hinge"], x: csr_matrix, y: np.ndarray, weight: np.ndarray | None, n_classes: int, C: float
) -> tuple[np.ndarray, np.ndarray]:
    r"""Return weights (columns, classes) and bias (classes) that minimise

    .. math:: \tfrac12 \|w\|^2 + C \sum_i \omega_i \ell(y_i, x_i \cdot w + b)

    with the squared error (``ls``), the squared hinge (``svm``), the hinge or the logistic loss (``lr``), by
    scikit-learn in float64, to a tolerance of 1e-6 (lr: mean gradient; ls: relative residual) or 1e-4 (svm: dual). The
    support vector machines, which liblinear solves, penalise the bias like a weight. ``lr`` of more than two classes is
    multinomial, the others are one against the rest. Two classes have the scores -s/2
    and s/2. A class without rows is never the answer.
    """
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
    solver.fit(x.astype(np.float64), y, sample_weight=weight)
    coefficients, intercepts = np.atleast_2d(solver.coef_), np.atleast_1d(solver.intercept_)
    if len(present) == 2:
        coefficients, intercepts = np.vstack([-coefficients, coefficients]) / 2, np.r_[-intercepts, intercepts] / 2
    out_weight[:, present], out_bias[present] = coefficients.T, intercepts
    return out_weight, out_bias
