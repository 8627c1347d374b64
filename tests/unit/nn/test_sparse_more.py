"""Blocks of rows, dense rows and all rows, against dense indexing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from multidomain.nn.sparse import SparseBatch, SparseMatrix


def example() -> np.ndarray:
    """Six rows, of which the first, the third and the last are empty, and an empty last column."""
    matrix = np.zeros((6, 5))
    matrix[1] = [1, 0, 2, 0, 0]
    matrix[3] = [0, 0, 0, -3, 0]
    matrix[4] = [4, 5, 6, 7, 0]
    return matrix


def all_rows(dtype: torch.dtype = torch.float64) -> SparseBatch:
    return SparseMatrix(csr_matrix(example()), dtype=dtype).take(np.arange(6))


@pytest.mark.parametrize(
    ("chosen", "size", "rows"),
    [
        pytest.param([0, 1, 2], 2, [0, 1, 2, 3, 4, 5], id="all"),
        pytest.param([1], 2, [2, 3], id="one"),
        pytest.param([2, 0], 2, [4, 5, 0, 1], id="another order"),
        pytest.param([1, 1], 3, [3, 4, 5, 3, 4, 5], id="twice"),
        pytest.param([0, 2, 5], 1, [0, 2, 5], id="only empty rows"),
        pytest.param([0], 6, [0, 1, 2, 3, 4, 5], id="a single block"),
        pytest.param([], 2, [], id="none"),
    ],
)
def test_blocks_are_dense_slices(chosen: list[int], size: int, rows: list[int]):
    blocks = all_rows().blocks(chosen, size)
    assert len(blocks) == len(rows)
    np.testing.assert_array_equal(blocks.to_dense(5), example()[np.array(rows, dtype=int)])


def test_blocks_can_be_added_to_other_rows():
    """What an adversarial step does with the target's mini-batches, none included."""
    x = all_rows()
    np.testing.assert_array_equal((x + x.blocks([1], 3)).to_dense(5), example()[[0, 1, 2, 3, 4, 5, 3, 4, 5]])
    np.testing.assert_array_equal((x + x.blocks([], 3)).to_dense(5), example())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dense_rows(dtype: torch.dtype):
    x = all_rows(dtype)
    dense = x.to_dense(7)  # wider than any row needs
    expected = [[0.0] * 7 for _ in range(6)]
    for i in range(6):
        for at in range(int(x.offset[i]), int(x.offset[i + 1])):
            expected[i][int(x.index[at])] = float(x.value[at])
    assert dense.dtype == dtype
    assert dense.tolist() == expected
    np.testing.assert_array_equal(dense[:, :5], example())


def test_no_rows_are_dense_too():
    assert all_rows().blocks([], 1).to_dense(5).shape == (0, 5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_all_rows_are_what_was_given(dtype: torch.dtype):
    rows = SparseMatrix(csr_matrix(example()), dtype=dtype).all()
    assert len(rows) == 6  # the empty last row too
    assert len(rows.value) == 7
    assert rows.value.dtype == dtype
    np.testing.assert_array_equal(rows.to_dense(5), example())


def test_all_of_no_rows():
    rows = SparseMatrix(csr_matrix((0, 4))).all()
    assert len(rows) == 0
    assert rows.to_dense(4).shape == (0, 4)


def test_all_and_some_rows_agree_for_any_matrix():
    for seed in range(20):
        random = np.random.default_rng(seed)
        shape = random.integers(1, 9, size=2)
        matrix = random.normal(size=shape) * (random.random(shape) < 0.4)
        rows = SparseMatrix(csr_matrix(matrix), dtype=torch.float64)
        np.testing.assert_array_equal(rows.all().to_dense(shape[1]), matrix)
        wanted = random.integers(shape[0], size=5)
        np.testing.assert_array_equal(rows.take(wanted).to_dense(shape[1]), matrix[wanted])


def test_a_column_that_is_named_twice_is_added_up():
    rows = SparseMatrix(csr_matrix((np.array([1.0, 2.0, 3.0]), [2, 0, 2], [0, 3]), shape=(1, 3)))
    assert rows.take(np.array([0])).to_dense(3).tolist() == [[2.0, 0.0, 4.0]]


def test_the_order_within_a_row_is_kept():
    """It is the order of the words in a token sequence."""
    rows = SparseMatrix(csr_matrix((np.ones(4), [2, 0, 2, 1], [0, 3, 4]), shape=(2, 3)))
    for batch in (rows.all(), rows.take(np.array([0, 1]))):
        assert batch.index.tolist() == [2, 0, 2, 1]
        assert batch.offset.tolist() == [0, 3, 4]


def test_sorting_the_given_matrix_later_changes_nothing():
    matrix = csr_matrix((np.array([1.0, 2.0]), [2, 0], [0, 2]), shape=(1, 3))
    rows = SparseMatrix(matrix)
    matrix.sort_indices()
    assert rows.all().to_dense(3).tolist() == [[2.0, 0.0, 1.0]]
