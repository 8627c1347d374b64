"""Two views of a document: tf-idf weighted by log-count ratios, and denoised features."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from multidomain.methods.base import ArraySpec
from multidomain.methods.data import Examples
from multidomain.methods.denoising import denoising_projection
from multidomain.methods.evidence import class_evidence, weighted_rows


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
    place, projection
        Place of a column in the projection, and the projection; its last row is of all columns that are not denoised.
    """

    evidence: np.ndarray
    place: np.ndarray
    projection: np.ndarray

    def __init__(self, n_inputs: int, n_words: int, size: int):
        self._n_inputs = n_inputs
        self._n_words = min(n_words, n_inputs) if size else 0
        self.size = min(size, self._n_words)

    def arrays(self) -> dict[str, ArraySpec]:
        """Return what the learnt arrays look like."""
        n = self._n_inputs
        return {
            "evidence": ArraySpec((n,)),
            "place": ArraySpec((n,), np.int64),
            "projection": ArraySpec((self._n_words + 1, self.size)),
        }

    def fit(self, labelled: Examples, text: Examples, n_classes: int, evidence: float, noise: float) -> None:
        """Fit the log-count ratios on labelled rows, and the denoising on all text."""
        scale = 1 - evidence + evidence * class_evidence(labelled, n_classes)
        self.evidence = scale.astype(np.float32)
        self.place = np.full(self._n_inputs, self._n_words)
        self.projection = np.zeros((self._n_words + 1, self.size), dtype=np.float32)
        if not self.size:
            return
        x = text.x.tocsc()
        denoised = np.sort(np.argsort(-np.diff(x.indptr), kind="stable")[: self._n_words])
        self.place[denoised] = np.arange(self._n_words)
        self.projection[:-1] = denoising_projection(x[:, denoised].tocsr(), noise, scale[denoised], self.size)

    def of(self, x: csr_matrix) -> tuple[csr_matrix, np.ndarray]:
        """Return the weighted tf-idf rows, and denoised features, shape (rows, size)."""
        moved = csr_matrix((x.data, self.place[x.indices], x.indptr), shape=(x.shape[0], len(self.projection)))
        denoised = moved @ self.projection
        length = np.sqrt((denoised**2).sum(axis=1, keepdims=True))
        return weighted_rows(x, self.evidence), denoised / length.clip(1e-12)
