"""Solving for the weights of given rows."""

from __future__ import annotations

import numpy as np

from multidomain.methods.dual_solver import domain_columns, solve_two_views
from multidomain.methods.sped.weights import BothViews, Weights
from multidomain.metrics import two_class_scores


class Solver:
    """Solves for the weights of both views, each class against the rest, as often as labels or costs change.

    Parameters
    ----------
    private
        Variance of private relative to shared weights.
    """

    def __init__(self, rows: BothViews, n_domains: int, n_classes: int, private: float):
        self._rows = rows
        self._n_classes = n_classes
        self._private = private
        self._own = domain_columns(rows.words, rows.d, n_domains)

    def solve(self, y: np.ndarray, cost: np.ndarray, length: float) -> Weights:
        """Return the weights for given labels and costs of the rows, and a length of the denoised view (0: none)."""
        denoised = self._rows.denoised * np.float32(length) if length else self._rows.denoised[:, :0]
        cost, own = cost.clip(1e-12), self._own
        shared, private, of_denoised, biases = [], [], [], []
        for c in [1] if self._n_classes == 2 else range(self._n_classes):
            target = np.where(y == c, 1, -1)
            w, v, u, b = solve_two_views(self._rows.words, denoised, self._rows.d, target, cost, own, self._private)
            shared.append(w)
            private.append(v)
            of_denoised.append(np.r_[u[:1], u[1:] + u[:1]] * np.float32(length))
            biases.append(np.r_[b[:1], b[1:] + b[0]])
        return Weights(
            shared=np.stack(shared),
            private=np.stack(private),
            columns=own.columns.astype(np.int32),
            starts=own.starts,
            denoised=np.stack(of_denoised),
            scale=np.ones(len(own.starts)),
            bias=two_class_scores(biases[0]) if self._n_classes == 2 else np.stack(biases, axis=-1),
        )
