"""RowAdam and the row gradients it takes, against dense Adam and dense autograd."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import Tensor, nn

from multidomain.nn.kernels.row_adam import RowAdam
from multidomain.nn.kernels.row_sum import RowGradient, row_sum
from multidomain.nn.sparse import SparseBatch, SparseMatrix

ROWS, WIDTH = 60, 7


def batches(steps: int, often: float = 0.2, seed: int = 0) -> list[tuple[Tensor, Tensor]]:
    """Row numbers and gradients of each step; gradients of all sizes, some of them zero."""
    random = np.random.default_rng(seed)
    result = []
    for _ in range(steps):
        rows = np.flatnonzero(random.random(ROWS) < often * np.linspace(2, 0, ROWS))
        gradient = random.normal(size=(len(rows), WIDTH)) * 10.0 ** random.uniform(-6, 1, size=(len(rows), WIDTH))
        gradient[random.random(gradient.shape) < 0.2] = 0
        result.append((torch.from_numpy(rows), torch.from_numpy(gradient)))
    return result


def weights(seed: int = 0) -> nn.Parameter:
    return nn.Parameter(torch.from_numpy(np.random.default_rng(seed).normal(size=(ROWS, WIDTH))))


def dense_run(steps: list[tuple[Tensor, Tensor]], lr: float) -> Tensor:
    p = weights()
    optimiser = torch.optim.Adam([p], lr=lr)
    for rows, gradient in steps:
        p.grad = torch.zeros_like(p).index_copy(0, rows, gradient)
        optimiser.step()
    return p.detach()


def step(p: nn.Parameter, optimiser: RowAdam, rows: Tensor, gradient: Tensor) -> None:
    optimiser.refresh(p, rows)
    p.row_gradient = RowGradient.of_rows(rows, gradient)
    optimiser.step()


@pytest.mark.parametrize("steps", [1, 2, 30, 700])
@pytest.mark.parametrize("often", [0.02, 0.5])
def test_equals_dense_adam(steps: int, often: float):
    """Also for rows that wait for hundreds of steps, longer than the closed form looks back."""
    p, lr = weights(), 0.01
    optimiser = RowAdam([p], lr=lr)
    for rows, gradient in batches(steps, often):
        step(p, optimiser, rows, gradient)
    optimiser.flush()
    expected = dense_run(batches(steps, often), lr)
    torch.testing.assert_close(p.detach(), expected, rtol=0, atol=lr * 1e-4)
    assert (p.detach() - weights()).abs().max() > lr / 2


def test_a_row_that_is_read_often_moves_as_one_that_is_read_once():
    p, q = weights(), weights()
    one, other = RowAdam([p], lr=0.01), RowAdam([q], lr=0.01)
    for rows, gradient in batches(40):
        step(p, one, rows, gradient)
        step(q, other, rows, gradient)
        other.refresh(q, torch.tensor([3, 3, 50, 3]))
        other.flush()
    one.flush()
    torch.testing.assert_close(p, q, rtol=0, atol=1e-7)


def test_weights_lag_until_they_are_settled():
    p = weights()
    optimiser = RowAdam([p], lr=0.01)
    step(p, optimiser, torch.tensor([5]), torch.ones(1, WIDTH, dtype=torch.float64))
    after_one = p.detach().clone()
    step(p, optimiser, torch.tensor([6]), torch.ones(1, WIDTH, dtype=torch.float64))
    assert torch.equal(p[5], after_one[5])
    optimiser.flush()
    assert (p[5] < after_one[5]).all()


def test_state_goes_on_exactly(tmp_path):
    p = weights()
    optimiser = RowAdam([p], lr=0.01)
    plan = batches(30)
    for rows, gradient in plan[:17]:
        step(p, optimiser, rows, gradient)
    q = nn.Parameter(p.detach().clone())
    again = RowAdam([q], lr=0.01)
    again.load_state_dict(copy.deepcopy(optimiser.state_dict()))
    for rows, gradient in plan[17:]:
        step(p, optimiser, rows, gradient)
        step(q, again, rows, gradient)
    assert torch.equal(p, q)


@pytest.mark.parametrize("density", [0.0, 0.1, 0.6])
def test_row_gradient_is_the_dense_one(density: float):
    random = np.random.default_rng(1)
    matrix = sparse.csr_matrix((random.random((9, ROWS)) < density) * random.integers(1, 5, ROWS))
    x = SparseMatrix(matrix, dtype=torch.float64).take(np.array([4, 0, 4, 8]))  # a row twice
    p, dense = weights(), weights()
    upstream = torch.from_numpy(random.normal(size=(4, WIDTH)))
    sums = RowAdam([p], lr=0.01).row_sum(x, p)
    (sums * upstream).sum().backward()
    expected = torch.from_numpy(matrix[[4, 0, 4, 8]].toarray().astype(float)) @ dense
    (expected * upstream).sum().backward()
    torch.testing.assert_close(sums, expected)
    torch.testing.assert_close(row_sum(x, p), expected)
    rows, gradient = p.row_gradient.rows, p.row_gradient.values
    assert rows.tolist() == sorted(set(x.index.tolist()))
    torch.testing.assert_close(torch.zeros_like(p).index_copy(0, rows, gradient), dense.grad)
    assert p.grad is None


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("copies", [1, 2, 3])
def test_row_sum_reads_what_dense_adam_has_written(copies: int, dropout: float):
    """Rows that wait for a gradient are read as if they had moved; each copy has rows of its own."""
    random = np.random.default_rng(2)
    matrix = sparse.csr_matrix((random.random((12, ROWS // copies)) < 0.1) * 2.0)
    x = SparseMatrix(matrix, dtype=torch.float64).all()
    shifted = SparseBatch(x.index + x.row_of_value // (12 // copies) * (ROWS // copies), x.value, x.offset)
    p = weights()
    optimiser = RowAdam([p], lr=0.01)
    for rows, gradient in batches(20):
        step(p, optimiser, rows, gradient)
    torch.manual_seed(0)
    sums = optimiser.row_sum(x, p, copies, dropout)
    torch.manual_seed(0)
    expected = row_sum(shifted.with_dropout(dropout), dense_run(batches(20), 0.01))
    torch.testing.assert_close(sums.detach(), expected, rtol=0, atol=1e-6)
    assert not torch.equal(dense_run(batches(20), 0.01), dense_run(batches(19), 0.01))


def test_a_step_takes_the_gradient_of_row_sum():
    x = SparseMatrix(sparse.csr_matrix(np.eye(ROWS)[[3, 5, 3]]), dtype=torch.float64).all()
    p, upstream = weights(), torch.arange(3.0 * WIDTH, dtype=torch.float64).view(3, WIDTH)
    optimiser = RowAdam([p], lr=0.01)
    (optimiser.row_sum(x, p) * upstream).sum().backward()
    optimiser.step()
    expected = dense_run([(torch.tensor([3, 5]), torch.stack([upstream[0] + upstream[2], upstream[1]]))], 0.01)
    torch.testing.assert_close(p.detach(), expected, rtol=0, atol=1e-12)


def test_rows_are_joined_and_dropped():
    matrix = sparse.csr_matrix(np.arange(12).reshape(4, 3) % 5)
    rows = SparseMatrix(matrix, dtype=torch.float64)
    both = rows.take(np.array([2])) + rows.take(np.array([0, 3]))
    identity = torch.eye(3, dtype=torch.float64)
    torch.testing.assert_close(row_sum(both, identity), torch.from_numpy(matrix[[2, 0, 3]].toarray().astype(float)))
    torch.manual_seed(0)
    many = rows.take(np.zeros(4000, dtype=int))
    dropped = many.with_dropout(0.4)
    assert len(dropped.value) / len(many.value) == pytest.approx(0.6, abs=0.02)
    mean = row_sum(dropped, identity).mean(dim=0)
    torch.testing.assert_close(mean, torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64), rtol=0, atol=0.05)
    assert isinstance(dropped, SparseBatch)
    assert len(dropped) == 4000
