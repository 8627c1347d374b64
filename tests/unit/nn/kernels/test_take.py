"""Rows of a sparse matrix by the compiled loop and by torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from multidomain.nn.kernels.take import take_rows
from multidomain.nn.sparse import SparseMatrix


@pytest.mark.parametrize("rows", [[3, 0, 3, 5], [1], [], [[2, 4], [1, 2]]])
def test_equals_the_plain_form(rows: list[int]):
    random = np.random.default_rng(0)
    dense = random.random((6, 9)) * (random.random((6, 9)) < 0.4)
    dense[1] = 0
    matrix, chosen = SparseMatrix(csr_matrix(dense)), np.array(rows, dtype=int)
    found, expected = take_rows(matrix.all(), chosen), matrix.take(chosen)
    for name in ("index", "value", "offset"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name
