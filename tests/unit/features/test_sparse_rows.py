"""Rows of sparse matrices, in blocks and selected."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random, vstack

from multidomain import arrays
from multidomain.features import sparse_rows
from multidomain.features.sparse_rows import row_blocks, row_squares, selected, stacked

X = csr_matrix(random(30, 8, density=0.3, random_state=0, dtype=np.float32))


@pytest.fixture(params=["memory", "disk"], autouse=True)
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "disk":
        monkeypatch.setattr(arrays, "LARGE", 16)
        monkeypatch.setattr(sparse_rows, "_VALUES_AT_A_TIME", 10)


def same(found: csr_matrix, expected: csr_matrix) -> bool:
    assert found.shape == expected.shape
    pairs = ((found.indptr, expected.indptr), (found.indices, expected.indices), (found.data, expected.data))
    return all(np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize(
    "rows", [np.array([5, 3, 3, 29]), np.arange(30) % 4 == 1, np.zeros(30, bool), np.arange(4, 9), np.array([], int)]
)
def test_selected_rows(rows: np.ndarray):
    assert same(selected(X, rows), X[rows])


def test_rows_that_follow_each_other_are_not_copied():
    assert np.shares_memory(selected(X, np.arange(4, 9)).data, X.data)
    assert not np.shares_memory(selected(X, np.array([9, 4])).data, X.data)


def test_stacked_rows():
    assert same(stacked([X, X[:3], X[:0]]), vstack([X, X[:3], X[:0]], format="csr"))


def test_blocks_are_all_rows():
    found = list(row_blocks(X))
    assert np.concatenate([np.arange(30)[rows] for rows, _ in found]).tolist() == list(range(30))
    for rows, block in found:
        assert same(block, X[rows])
    np.testing.assert_array_equal(row_squares(X), np.asarray(X.multiply(X).sum(axis=1)).ravel())
