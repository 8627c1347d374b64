"""Two views of a document: tf-idf weighted by log-count ratios, and denoised features."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor, nn
from torch.nn import functional

from multidomain.methods.data import Examples
from multidomain.methods.denoising import denoising_projection
from multidomain.methods.evidence import class_evidence
from multidomain.nn.kernels.row_sum import row_sum
from multidomain.nn.sparse import SparseBatch, SparseMatrix


class TwoViews(nn.Module):
    """Turns tf-idf rows into two views, each scaled to unit length.

    Parameters
    ----------
    n_inputs
        Width of the rows.
    n_words
        Number of columns to denoise, the most frequent ones.
    size
        Number of denoised features; 0 for no second view.
    """

    def __init__(self, n_inputs: int, n_words: int, size: int):
        super().__init__()
        n_words = min(n_words, n_inputs) if size else 0
        size = min(size, n_words)
        self.evidence = _fixed(torch.ones(n_inputs))
        self.place = _fixed(torch.zeros(n_inputs, dtype=torch.int64))  # of a column in the projection
        self.projection = _fixed(torch.zeros(n_words + 1, size))  # the last is of all columns that are not denoised

    @property
    def size(self) -> int:
        """Return the number of denoised features."""
        return self.projection.shape[1]

    def fit(self, labelled: Examples, text: Examples, n_classes: int, evidence: float, noise: float) -> None:
        """Fit the log-count ratios on labelled rows, and the denoising on all text."""
        r = class_evidence(labelled, n_classes)
        scale = 1 - evidence + evidence * r
        self.evidence.copy_(torch.from_numpy(scale))
        if not self.size:
            return
        x = text.x.tocsc()
        n_words = len(self.projection) - 1
        denoised = np.sort(np.argsort(-np.diff(x.indptr), kind="stable")[:n_words])
        self.place.fill_(n_words)
        self.place[torch.from_numpy(denoised)] = torch.arange(n_words)
        projection = denoising_projection(x[:, denoised].tocsr(), noise, scale[denoised], self.size)
        self.projection[:-1].copy_(torch.from_numpy(projection))

    def forward(self, x: SparseBatch) -> tuple[SparseBatch, Tensor]:
        """Return the weighted tf-idf rows, and denoised features, shape (rows, size)."""
        value = x.value * self.evidence[x.index]
        squares = value.new_zeros(len(x)).index_add_(0, x.row_of_value, value**2)
        length = squares.sqrt().clamp_min(1e-12)
        words = SparseBatch(x.index, value / length[x.row_of_value], x.offset)
        if not self.size:  # torch refuses rows of no columns, if it has several threads
            return words, value.new_zeros(len(x), 0)
        denoised = row_sum(SparseBatch(self.place[x.index], x.value, x.offset), self.projection)
        return words, functional.normalize(denoised, dim=1)

    def of(self, rows: Examples) -> tuple[csr_matrix, np.ndarray]:
        """Return both views of many rows."""
        words, denoised = self(SparseMatrix(rows.x).all())
        shape = (len(rows), len(self.evidence))
        sparse = csr_matrix((words.value.numpy(), words.index.numpy(), words.offset.numpy()), shape=shape)
        return sparse, denoised.numpy()


def _fixed(value: Tensor) -> nn.Parameter:
    return nn.Parameter(value, requires_grad=False)
