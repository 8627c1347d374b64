"""Weights of both views: shared ones, and private ones of each domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_matrix

from multidomain.arrays import blocks
from multidomain.features.sparse_rows import selected, stacked
from multidomain.methods.base import ArraySpec
from multidomain.methods.calibration import Calibration
from multidomain.methods.pruning import largest
from multidomain.metrics import two_class_scores

_ROWS_AT_A_TIME = 1 << 16


@dataclass(frozen=True)
class BothViews:
    """Rows as words and denoised, with their domains."""

    words: csr_matrix
    denoised: np.ndarray
    d: np.ndarray

    def select(self, rows: np.ndarray) -> BothViews:
        """Return the rows selected by a mask or row numbers."""
        return BothViews(selected(self.words, rows), self.denoised[rows], self.d[rows])

    def first(self, n: int) -> BothViews:
        """Return the first rows, which are not copied."""
        return BothViews(selected(self.words, np.arange(n)), self.denoised[:n], self.d[:n])

    def __add__(self, other: BothViews) -> BothViews:
        """Concatenate the rows of both."""
        return BothViews(
            stacked([self.words, other.words]),
            np.r_[self.denoised, other.denoised],
            np.r_[self.d, other.d],
        )


@dataclass
class Weights:
    """Linear scores of both views: one for two classes, one for each of more. The first copy is for unknown domains.

    Private weights of words are stored where a domain has the word, so that many domains take no more room than the
    data.

    Attributes
    ----------
    shared
        Weights of words, shape (scores, columns).
    private, columns, starts
        What a domain adds to them, shape (scores, places): domain `d` has the places ``starts[d]:starts[d + 1]``, whose
        columns are ``columns[...]``.
    denoised
        Shape (scores, 1 + domains, size); private weights are added already.
    scale, bias
        Inverse temperature of each copy, and biases, shape (1 + domains, classes).
    """

    shared: np.ndarray
    private: np.ndarray
    columns: np.ndarray
    starts: np.ndarray
    denoised: np.ndarray
    scale: np.ndarray
    bias: np.ndarray

    @classmethod
    def empty(cls) -> Weights:
        """Return weights that are about to be set."""
        return cls(*(np.empty(0) for _ in range(7)))

    @staticmethod
    def arrays(n_columns: int, n_domains: int, n_classes: int) -> dict[str, ArraySpec]:
        """Return what the arrays look like."""
        n_scores, copies = n_scores_of(n_classes), 1 + n_domains
        return {
            "shared": ArraySpec((n_scores, n_columns)),
            "private": ArraySpec((n_scores, None)),
            "columns": ArraySpec((None,), np.int32),
            "starts": ArraySpec((copies,), np.int64),
            "denoised": ArraySpec((n_scores, copies, None)),
            "scale": ArraySpec((copies,)),
            "bias": ArraySpec((copies, n_classes)),
        }

    def check(self) -> None:
        """Raise a ValueError if the places of private weights contradict each other."""
        starts, columns = self.starts, self.columns
        in_order = starts[0] == 0 and (np.diff(starts) >= 0).all() and starts[-1] == len(columns)
        if not in_order or self.private.shape[1] != len(columns):
            raise ValueError("the private weights do not fit their places")
        if len(columns) and not 0 <= columns.min() <= columns.max() < self.shared.shape[1]:
            raise ValueError("private weights have columns that there are not")

    def logits(self, rows: BothViews) -> np.ndarray:
        """Return class logits of rows of known domains, shape (rows, classes)."""
        logits = np.empty((len(rows.d), self.bias.shape[1]))
        for d in np.unique(rows.d):
            of_domain = np.flatnonzero(rows.d == d)
            for some in blocks(len(of_domain), _ROWS_AT_A_TIME):
                here = of_domain[some]
                logits[here] = self.logits_of(selected(rows.words, here), rows.denoised[here], int(d))
        return logits

    def logits_of(self, words: csr_matrix, denoised: np.ndarray, d: int | None) -> np.ndarray:
        """Return class logits of rows of one domain, None for an unknown one."""
        copy, scores = 0 if d is None else 1 + d, []
        places = slice(0, 0) if d is None else slice(self.starts[d], self.starts[d + 1])
        for shared, private, of_denoised in zip(self.shared, self.private, self.denoised, strict=True):
            weight = shared
            if places.start < places.stop:
                weight = shared.copy()
                weight[self.columns[places]] += private[places]
            of_view = denoised @ of_denoised[copy] if len(of_denoised[copy]) else 0
            scores.append(self.scale[copy] * (words @ weight + of_view))
        if self.bias.shape[1] == 2:
            return two_class_scores(scores[0]) + self.bias[copy]
        return np.stack(scores, axis=-1) + self.bias[copy]

    def calibrated(self, calibrations: Sequence[Calibration]) -> Weights:
        """Return the weights of calibrated logits; the calibrations are in the order of the copies."""
        scale = np.array([calibration.scale for calibration in calibrations])
        biases = np.stack([calibration.bias for calibration in calibrations])
        return replace(self, scale=self.scale * scale, bias=self.bias * scale[:, None] + biases)

    def moved(self, biases: Mapping[int, np.ndarray]) -> Weights:
        """Return the same weights with something added to the biases of some domains."""
        bias = self.bias.copy()
        for d, moved in biases.items():
            bias[1 + d] += moved - moved.mean()
        return replace(self, bias=bias)

    def pruned(self, size: np.ndarray, share: float) -> tuple[Weights, np.ndarray]:
        """Return a share of the weights of words, those that move scores most, and which columns have one.

        Parameters
        ----------
        size
            Of each column: root mean square of its values.
        """
        moves = [size * np.abs(self.shared).max(axis=0), size[self.columns] * np.abs(self.private).max(axis=0)]
        of_shared, of_private = np.split(largest(np.concatenate(moves), share), [len(size)])
        has_weight = of_shared.copy()
        has_weight[self.columns[of_private]] = True
        kept = replace(
            self,
            shared=self.shared * of_shared,
            private=self.private[:, of_private],
            columns=self.columns[of_private],
            starts=np.r_[0, np.cumsum(of_private)][self.starts],
        )
        return kept, has_weight

    def narrowed(self, columns: np.ndarray) -> Weights:
        """Return the weights of some columns, among which are all that private weights have."""
        return replace(
            self, shared=self.shared[:, columns], columns=np.searchsorted(columns, self.columns).astype(np.int32)
        )

    def single_precision(self) -> Weights:
        """Return the weights as they are kept."""
        return replace(self, scale=self.scale.astype(np.float32), bias=self.bias.astype(np.float32))


def n_scores_of(n_classes: int) -> int:
    """Return how many scores there are: two classes have one, -s/2 and s/2."""
    return 1 if n_classes == 2 else n_classes
