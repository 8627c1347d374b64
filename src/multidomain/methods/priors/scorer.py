"""A shared linear model, and what it sees in the text of a domain."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from multidomain.methods.calibration import Calibration
from multidomain.methods.data import Examples
from multidomain.methods.evidence import class_evidence, weighted_rows
from multidomain.methods.priors.alignment import class_odds
from multidomain.methods.priors.third_moments import MomentRatio, moment_ratio
from multidomain.metrics import two_class_scores

_C = 0.1
_EVIDENCE, _PRIVATE = 0.5, 0.5


class Scorer:
    """A linear model of the shared evidence-weighted features."""

    def __init__(self, rows: Examples, n_classes: int):
        from multidomain.methods.dual_solver import (  # imported here: prediction must not load numba
            domain_columns,
            solve_two_views,
        )

        assert rows.y is not None
        self._scale = 1 - _EVIDENCE + _EVIDENCE * class_evidence(rows, n_classes)
        x, none = self.features(rows.x), np.zeros((len(rows), 0), dtype=np.float32)
        domains, d = np.unique(rows.d, return_inverse=True)
        cost = np.full(len(rows), _C) if rows.weight is None else _C * rows.weight
        own = domain_columns(x, d, len(domains))
        solutions = []
        for c in [1] if n_classes == 2 else range(n_classes):
            y = np.where(rows.y == c, 1, -1)
            solution = solve_two_views(x, none, d, y, cost, own, _PRIVATE)
            solutions.append((solution.shared.astype(np.float64), solution.bias[0]))
        weights, biases = (np.stack(part, axis=-1) for part in zip(*solutions, strict=True))
        if n_classes == 2:
            weights, biases = two_class_scores(weights[:, 0]), two_class_scores(biases[0])
        self.weights, self._biases = weights, biases  # (columns, classes), (classes,)

    def features(self, x: csr_matrix) -> csr_matrix:
        """Return rows as the model reads them."""
        return weighted_rows(x, self._scale)

    def scores(self, features: csr_matrix) -> np.ndarray:
        """Return class scores, shape (rows, classes)."""
        return features @ self.weights + self._biases


class DomainText:
    """What the text of a domain shows: logits, and the parts of its scores."""

    def __init__(self, scorer: Scorer, calibration: Calibration, x: csr_matrix):
        self._features = scorer.features(x)
        self._weights = scorer.weights
        self._logits = calibration.logits(scorer.scores(self._features))

    def __len__(self) -> int:
        return len(self._logits)

    def odds(self, c: int) -> np.ndarray:
        """Return the log-odds of a class, row by row."""
        return class_odds(self._logits, c)

    def ratio(self, c: int) -> MomentRatio:
        """Return the moment ratio of the score of a class."""
        return moment_ratio(self._features, self._weights[:, c])
