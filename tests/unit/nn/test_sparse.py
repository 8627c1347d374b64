"""Batches cut from sparse rows, against dense indexing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from multidomain.nn.sparse import SparseBatch, SparseMatrix


def dense(rows: SparseBatch, n_columns: int) -> np.ndarray:
    """Write a batch out cell by cell."""
    result = np.zeros((len(rows), n_columns))
    for i in range(len(rows)):
        for at in range(int(rows.offset[i]), int(rows.offset[i + 1])):
            result[i, int(rows.index[at])] += float(rows.value[at])
    return result


def example() -> np.ndarray:
    """A matrix with empty rows at both ends and in the middle."""
    matrix = np.zeros((6, 4))
    matrix[1] = [1, 0, 2, 0]
    matrix[3] = [0, 0, 0, 3]
    matrix[4] = [4, 5, 6, 7]
    return matrix


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param([0, 1, 2, 3, 4, 5], id="all"),
        pytest.param([4, 3, 1], id="another order"),
        pytest.param([4, 4, 1, 4], id="repeats"),
        pytest.param([0, 5, 2], id="only empty rows"),
        pytest.param([0, 4, 2, 1, 5], id="empty rows between"),
        pytest.param([], id="none"),
    ],
)
def test_take_is_dense_indexing(wanted: list[int]):
    matrix = example()
    batch = SparseMatrix(csr_matrix(matrix)).take(np.array(wanted, dtype=int))
    assert len(batch) == len(wanted)
    np.testing.assert_array_equal(dense(batch, 4), matrix[np.array(wanted, dtype=int)])


@given(st.data())
def test_take_is_dense_indexing_for_any_matrix(data: st.DataObject):
    n_rows, n_columns = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 6))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    matrix = random.integers(1, 9, (n_rows, n_columns)) * (random.random((n_rows, n_columns)) < 0.4)
    wanted = np.array(data.draw(st.lists(st.integers(0, n_rows - 1), max_size=20)), dtype=int)
    batch = SparseMatrix(csr_matrix(matrix)).take(wanted)
    np.testing.assert_array_equal(dense(batch, n_columns), matrix[wanted])
    lengths = (matrix[wanted] != 0).sum(axis=1)
    np.testing.assert_array_equal(batch.row_of_value, np.repeat(np.arange(len(wanted)), lengths))


def test_rows_of_several_dimensions_are_taken_in_reading_order():
    matrix = example()
    wanted = np.array([[4, 1, 0], [3, 3, 4]])
    np.testing.assert_array_equal(dense(SparseMatrix(csr_matrix(matrix)).take(wanted), 4), matrix[[4, 1, 0, 3, 3, 4]])


def test_a_tensor_of_row_numbers_does_as_well():
    matrix = example()
    batch = SparseMatrix(csr_matrix(matrix)).take(torch.tensor([4, 1]))
    np.testing.assert_array_equal(dense(batch, 4), matrix[[4, 1]])


def test_size_and_precision():
    rows = SparseMatrix(csr_matrix(example()), dtype=torch.float64)
    assert len(rows) == 6
    assert rows.take(np.array([1])).value.dtype == torch.float64
    assert SparseMatrix(csr_matrix(example())).take(np.array([1])).value.dtype == torch.float32


def test_unsorted_indices_and_duplicates_mean_the_same():
    # Row 0 has column 2 twice and its columns out of order.
    matrix = csr_matrix((np.array([1.0, 2.0, 3.0]), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 3))
    np.testing.assert_array_equal(dense(SparseMatrix(matrix).take(np.array([0])), 3), [[2, 0, 4]])
