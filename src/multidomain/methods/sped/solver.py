"""Solving for the weights of given rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from multidomain.features.sparse_rows import row_squares
from multidomain.kernels.parallel import map_in_threads
from multidomain.methods.dual_solver import Solution, domain_columns, solve_two_views
from multidomain.methods.sped.weights import BothViews, Weights
from multidomain.metrics import two_class_scores


@dataclass(frozen=True)
class Dual:
    """Dual variables of each score, shape (scores, rows), and the class that each row had."""

    alpha: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class Solved:
    """Weights, and the dual variables, from which other problems of the same rows may start."""

    weights: Weights
    dual: Dual


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
        self._classes = [1] if n_classes == 2 else range(n_classes)

    def solve(self, y: np.ndarray, cost: np.ndarray, length: float, start: Dual | None = None) -> Solved:
        """Return the weights for given labels and costs of the rows, and a length of the denoised view (0: none).

        Parameters
        ----------
        start
            Of these rows, or of the first of them, with other labels or costs: where to start from.
        """
        denoised = self._rows.denoised if length else self._rows.denoised[:, :0]
        cost, own = cost.clip(1e-12), self._own

        def solution(c: int) -> Solution:
            target = np.where(y == c, 1, -1)
            alpha = None if start is None else _carried_over(start, self._classes.index(c), c, y)
            return solve_two_views(
                self._rows.words, denoised, self._rows.d, target, cost, own, self._private, length=length, start=alpha
            )

        found = map_in_threads(solution, self._classes)
        biases = [np.r_[one.bias[:1], one.bias[1:] + one.bias[0]] for one in found]
        weights = Weights(
            shared=np.stack([one.shared for one in found]),
            private=np.stack([one.private for one in found]),
            columns=own.columns.astype(np.int32),
            starts=own.starts,
            denoised=np.stack(
                [np.r_[one.dense[:1], one.dense[1:] + one.dense[:1]] * np.float32(length) for one in found]
            ),
            scale=np.ones(len(own.starts)),
            bias=two_class_scores(biases[0]) if self._n_classes == 2 else np.stack(biases, axis=-1),
        )
        return Solved(weights, Dual(np.stack([one.alpha for one in found]), y))

    def left_out(self, solved: Solved, length: float, n_rows: int) -> np.ndarray:
        r"""Return logits of the first rows, each of them as if the others alone had been solved for, approximately.

        Without row `i` the margin :math:`y_i s_i` falls by :math:`\alpha_i S_i^2` (the span of support vectors), where
        :math:`S_i^2` is at most :math:`\|\phi_i\|^2`, and nearly that if rows have few words in common.

        References
        ----------
        V. Vapnik and O. Chapelle. Bounds on Error Expectation for Support Vector Machines. Neural Computation 12, 2000.
        """
        rows = self._rows.first(n_rows)
        squares = row_squares(rows.words) + length**2 * np.einsum("ij,ij->i", rows.denoised, rows.denoised)
        learnt = solved.dual.alpha[:, :n_rows] * squares * (1 + self._private)
        y = solved.dual.y[:n_rows]
        signed = [np.where(y == c, own, -own) for c, own in zip(self._classes, learnt, strict=True)]
        return solved.weights.logits(rows) - (
            two_class_scores(signed[0]) if self._n_classes == 2 else np.stack(signed, axis=-1)
        )


def _carried_over(start: Dual, score: int, c: int, y: np.ndarray) -> np.ndarray:
    """Return the dual variables to start from; a row that is new, or has changed sides, starts at 0."""
    alpha = np.zeros(len(y))
    before = len(start.y)
    stays = (y[:before] == c) == (start.y == c)
    alpha[:before] = np.where(stays, start.alpha[score], 0)
    return alpha


class CostPath:
    """Solutions for growing costs, each of which starts from the one before.

    Scores and dual variables are kept, not weights: these may be larger than the data if there are many domains.

    Parameters
    ----------
    costs
        Ascending.
    solve
        Solves for the weights at a cost, from dual variables or from nothing.
    score
        Dev score of weights.
    """

    def __init__(
        self,
        costs: Sequence[float],
        solve: Callable[[float, Dual | None], Solved],
        score: Callable[[Weights], float],
    ):
        self._costs, self._left = costs, list(costs)
        self._solve, self._score = solve, score
        self._found: dict[float, tuple[float, Dual]] = {}

    def at(self, cost: float) -> tuple[float, Dual]:
        """Return the dev score and the dual variables at one of the costs; larger ones are not solved for."""
        last = next(reversed(self._found.values()))[1] if self._found else None
        while cost not in self._found:
            following = self._left.pop(0)
            solved = self._solve(following, last)
            last = solved.dual
            self._found[following] = self._score(solved.weights), last
        return self._found[cost]

    def finish(self) -> None:
        """Solve for all costs."""
        self.at(self._costs[-1])
