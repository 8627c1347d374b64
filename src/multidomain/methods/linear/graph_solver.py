"""Linear multi-domain models with graph-regularised weights, solved by L-BFGS."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_matrix, hstack

from multidomain.errors import Note, TrainingError
from multidomain.methods.base import FitContext
from multidomain.methods.data import Examples
from multidomain.methods.linear.base import Weights
from multidomain.methods.task import Task
from multidomain.metrics import two_class_scores
from multidomain.objectives.margin import MARGIN_LOSSES, Loss

GRADIENT_TOLERANCE = 1e-5
RIDGE_GRID = (1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 1e-6)


class TiedWeights:
    r"""The objective

    .. math::
        J(w, V) = \sum_{d \in \Delta_L} \frac{1}{\sum_i \omega_i} \sum_i \omega_i \ell(y_i, x_i \cdot (w + v_d))
        + \lambda_w \|w\|^2 + \mathrm{tr}(V^\top A V) - p \cdot w

    of global weights `w` and one row :math:`v_d` of `V` per domain, labelled or not.

    The last feature is a constant 1: its weight is the bias. More than two classes are one-vs-rest, each with its
    own weights; :math:`y_i` is 1 for the class and -1 for the others.

    Parameters
    ----------
    A
        Positive definite, shape (domains, domains): a penalty on each :math:`v_d` and on differences.
    penalty
        :math:`\lambda_w`; None drops `w`.
    prior
        `p`, shape (columns, targets), or None.
    """

    def __init__(
        self, task: Task, rows: Examples, loss: Loss, A: np.ndarray, penalty: float | None, prior: np.ndarray | None
    ):
        assert rows.y is not None
        self._task, self._loss, self._A, self._penalty = task, MARGIN_LOSSES[loss], A, penalty
        x = rows.x.astype(np.float64)
        x = hstack([x, np.ones((x.shape[0], 1))], format="csr")
        self._n_targets = 1 if task.n_classes == 2 else task.n_classes
        targets = np.where(rows.y[:, None] == np.arange(task.n_classes), 1.0, -1.0)[:, -self._n_targets :]
        weight = np.ones(len(rows)) if rows.weight is None else rows.weight
        self._parts: list[tuple[int, csr_matrix, csr_matrix, np.ndarray, np.ndarray]] = []
        for d in task.labelled:
            here = rows.d == d
            share = (weight[here] / weight[here].sum())[:, None]
            self._parts.append((d, x[here], x[here].T.tocsr(), targets[here], share))
        self._prior = np.zeros((x.shape[1], self._n_targets))
        if prior is not None:
            self._prior[:-1] = prior
        self._shape = (1 + len(task.domains), x.shape[1], self._n_targets)

    def value_and_gradient(self, flat: np.ndarray) -> tuple[float, np.ndarray]:
        """Return J and its gradient at `w` followed by the rows of `V`."""
        theta = flat.reshape(self._shape)
        w, V = theta[0], theta[1:]
        gradient = np.zeros(self._shape)
        value = 0.0
        if self._penalty is not None:
            value = self._penalty * np.square(w).sum() - (self._prior * w).sum()
            gradient[0] = 2 * self._penalty * w - self._prior
        AV = np.tensordot(self._A, V, axes=1)
        value += (V * AV).sum()
        gradient[1:] = 2 * AV
        for d, x, x_transposed, y, weight in self._parts:
            margin = y * (x @ (w + V[d]))
            value += (weight * self._loss.value(margin)).sum()
            slope = x_transposed @ (weight * y * self._loss.slope(margin))
            gradient[1 + d] += slope
            if self._penalty is not None:
                gradient[0] += slope
        return float(value), gradient.ravel()

    def minimum(self, context: FitContext, start: np.ndarray | None = None) -> np.ndarray:
        """Return `w` and `V`, shape (1 + domains, columns + 1, targets), where no partial derivative exceeds 1e-5."""
        first = np.zeros(self._shape) if start is None else start
        options = {"maxiter": 5_000, "maxfun": 10_000, "ftol": 0.0, "gtol": GRADIENT_TOLERANCE, "maxcor": 20}
        result = minimize(self.value_and_gradient, first.ravel(), jac=True, method="L-BFGS-B", options=options)
        if not np.isfinite(result.fun):
            raise TrainingError(
                "The solver met numbers that are not finite.", "Scale the features down, or use {weighting=tfidf}."
            )
        steepest = np.abs(result.jac).max()
        if steepest > 100 * GRADIENT_TOLERANCE:  # rounding can end the search slightly early
            context.note(
                Note(
                    f"The solver stopped before the minimum (largest partial derivative {steepest:.0e}).",
                    "Scale features down, use {weighting=tfidf}, or regularise more.",
                    kind="not-converged",
                )
            )
        return result.x.reshape(self._shape)

    def weights(self, theta: np.ndarray, unknown: np.ndarray) -> Weights:
        """Return the `Weights`; `unknown` (columns + 1, targets) are those for domains not in training."""
        total = np.concatenate([unknown[None], theta[0] + theta[1:]])
        if self._n_targets == 1:
            total = two_class_scores(total[..., 0])
        return Weights(total[:, :-1], total[:, -1])


def laplacian(similarity: np.ndarray) -> np.ndarray:
    r"""Return `L` with :math:`\mathrm{tr}(V^\top L V) = \sum_{d<e} S_{de} \|v_d - v_e\|^2`."""
    similarity = similarity - np.diag(np.diag(similarity))
    return np.diag(similarity.sum(axis=1)) - similarity
