"""Two views of a document: tf-idf weighted by log-count ratios, and denoised features."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_matrix

from multidomain.errors import Note
from multidomain.features.sparse_rows import row_blocks, stacked
from multidomain.methods.base import ArraySpec
from multidomain.methods.data import Examples
from multidomain.methods.denoising import denoising_projection
from multidomain.methods.evidence import class_evidence, weighted_rows
from multidomain.methods.pruning import largest

_ROWS_AT_A_TIME = 1 << 16
MOST_DENOISED = 1_000_000
"""Rows of text beyond which there is no denoised view unless its length is given: it takes 2 GB for a million rows."""


def not_denoised(rows: int) -> Note:
    """Return a note on a view that there is not."""
    return Note(
        f"The denoised view is left out: there are {rows:,} rows of text, more than {MOST_DENOISED:,}.",
        "Give its length ({settings.denoised_length=0.7}) if memory allows.",
        kind="not-denoised",
    )


class TwoViews:
    """Turns tf-idf rows into two views, each scaled to unit length.

    Parameters
    ----------
    n_inputs
        Width of the rows.
    n_words
        Number of columns to denoise, the most frequent ones.
    size
        Number of denoised features; 0 for no second view.

    Attributes
    ----------
    evidence
        Factor of each column.
    columns, projection
        The columns that are denoised, ascending, and their projection, shape (n_words, size).
    """

    evidence: np.ndarray
    columns: np.ndarray
    projection: np.ndarray

    def __init__(self, n_inputs: int, n_words: int, size: int):
        self._n_inputs = n_inputs
        self._n_words = min(n_words, n_inputs) if size else 0
        self._size = min(size, self._n_words)

    def arrays(self) -> dict[str, ArraySpec]:
        """Return what the learnt arrays look like; there may be no second view."""
        return {
            "evidence": ArraySpec((self._n_inputs,)),
            "columns": ArraySpec((None,), np.int32),
            "projection": ArraySpec((None, None)),
        }

    def check(self) -> None:
        """Raise a ValueError if the projection does not fit its columns."""
        columns = self.columns
        if len(columns) != len(self.projection) or (np.diff(columns) <= 0).any():
            raise ValueError("the projection does not fit its columns")
        if len(columns) and not 0 <= columns[0] <= columns[-1] < self._n_inputs:
            raise ValueError("the projection has columns that there are not")

    def fit(
        self, labelled: Examples, text: Examples, n_classes: int, evidence: float, noise: float, *, denoise: bool = True
    ) -> None:
        """Fit the log-count ratios on labelled rows, and the denoising, if there is to be any, on all text."""
        scale = 1 - evidence + evidence * class_evidence(labelled, n_classes)
        self.evidence = scale.astype(np.float32)
        self.drop_denoised()
        if not (self._size and denoise):
            return
        often = np.bincount(text.x.indices, minlength=self._n_inputs)
        denoised = np.sort(np.argsort(-often, kind="stable")[: self._n_words])
        self.columns = denoised.astype(np.int32)
        words = stacked([block for _, block in self._denoised_words(text.x)])
        self.projection = denoising_projection(words, noise, scale[denoised], self._size)

    def drop_denoised(self) -> None:
        """Do without the second view."""
        self.columns, self.projection = np.empty(0, dtype=np.int32), np.empty((0, 0), dtype=np.float32)

    def most_denoised(self, size: np.ndarray, share: float) -> np.ndarray:
        """Return which of the denoised columns move the second view most, a share of them.

        Parameters
        ----------
        size
            Of each column of the rows: root mean square of its values.
        """
        return largest(size[self.columns] * np.linalg.norm(self.projection, axis=1), share)

    def of(self, x: csr_matrix) -> tuple[csr_matrix, np.ndarray]:
        """Return the weighted tf-idf rows, and denoised features, shape (rows, size)."""
        words = weighted_rows(x, self.evidence)
        if not self.projection.size:
            return words, np.zeros((x.shape[0], 0), dtype=np.float32)
        denoised = np.empty((x.shape[0], self.projection.shape[1]), dtype=np.float32)
        for rows, kept in self._denoised_words(x):
            projected = kept @ self.projection
            length = np.sqrt((projected**2).sum(axis=1, keepdims=True))
            np.divide(projected, length.clip(1e-12), out=denoised[rows])
        return words, denoised

    def _denoised_words(self, x: csr_matrix) -> Iterator[tuple[slice, csr_matrix]]:
        """Yield all rows in blocks, of the columns that are denoised."""
        place = np.full(self._n_inputs, len(self.columns), dtype=np.int32)
        place[self.columns] = np.arange(len(self.columns))
        for rows, block in row_blocks(x, _ROWS_AT_A_TIME):
            at = place[block.indices]
            known = at < len(self.columns)
            indptr = np.r_[0, np.cumsum(known)][block.indptr]
            yield rows, csr_matrix((block.data[known], at[known], indptr), shape=(block.shape[0], len(self.columns)))
