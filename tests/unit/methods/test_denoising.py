"""Undoing noise, against its formula and against noise that is drawn; the main directions of restored rows."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from multidomain.methods import denoising
from multidomain.methods.denoising import _random_start, denoising_projection, undo_noise

COLUMNS = 5


def random_rows(n: int = 8, columns: int = COLUMNS, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return (random.random((n, columns)) + 0.2) * (random.random((n, columns)) < 0.6)


def naive_map(h: np.ndarray, q: np.ndarray, ridge: float) -> np.ndarray:
    """W = P Q^-1, entry by entry from the formula."""
    n = h.shape[1]
    Q, P = np.zeros((n, n)), np.zeros((n, n))
    for j in range(n):
        for k in range(n):
            s = sum(row[j] * row[k] for row in h)
            Q[j, k] = s * q[j] * q[k] if j != k else s * q[j] + ridge
            P[j, k] = s * q[k]
    return P @ np.linalg.inv(Q)


@pytest.mark.parametrize("q", [[0.2] * COLUMNS, [0.9] * COLUMNS, [0.1, 0.3, 0.5, 0.7, 1.0]])
@pytest.mark.parametrize("ridge", [1e-3, 0.5])
def test_the_map_is_the_closed_form(q: list[float], ridge: float):
    h = random_rows()
    S = h.T @ h
    before = S.copy()
    found = undo_noise(S, np.array(q), ridge, COLUMNS)
    expected = naive_map(h, np.array(q), ridge).T
    assert np.abs(expected - expected.T).max() > 0.01  # so that a transpose would be seen
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(S, before)
    some = undo_noise(S, np.array(q), ridge, 2)
    np.testing.assert_allclose(some, expected[:, :2], rtol=1e-9, atol=1e-12)


def test_the_map_undoes_noise_that_is_really_drawn():
    """Least squares from corrupted rows to the rows themselves; the scatter of 30 parts says how far it may be off."""
    h, q, ridge, parts, draws = random_rows(), np.array([0.3, 0.5, 0.6, 0.8, 0.4]), 0.05, 30, 1_000
    random = np.random.default_rng(1)
    Q, P = np.zeros((parts, COLUMNS, COLUMNS)), np.zeros((parts, COLUMNS, COLUMNS))
    for part in range(parts):
        for row in h:
            noisy = row * (random.random((draws, COLUMNS)) < q)
            Q[part] += noisy.T @ noisy / draws
            P[part] += noisy.mean(axis=0)[:, None] * row

    def solution(Q: np.ndarray, P: np.ndarray) -> np.ndarray:
        return np.linalg.solve(Q + ridge * np.eye(COLUMNS), P)

    error = np.std([solution(Q[part], P[part]) for part in range(parts)], axis=0) / parts**0.5
    assert error.max() < 0.01
    found = undo_noise(h.T @ h, q, ridge, COLUMNS)
    assert (np.abs(found - solution(Q.mean(axis=0), P.mean(axis=0))) < 5 * error).all()


def restored_rows(x: np.ndarray, noise: float, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Restored and scaled rows, and the map that makes them."""
    ridge = 1e-5 * float(np.mean([column @ column for column in x.T]))
    to_restored = naive_map(x, np.full(x.shape[1], 1 - noise), ridge).T * scale
    return x @ to_restored, to_restored


@pytest.mark.parametrize("noise", [0.3, 0.8])
@pytest.mark.parametrize("columns", [6, 90])  # fewer and more than the directions that are iterated
def test_projected_rows_are_the_main_part_of_restored_rows(noise: float, columns: int):
    size = 4
    random = np.random.default_rng(2)
    topics = random.random((6, columns)) * (random.random((6, columns)) < 0.4) * np.geomspace(8, 1, 6)[:, None]
    x = random_rows(60, 6, seed=3) @ topics + 0.02 * random_rows(60, columns, seed=4)
    scale = random.uniform(0.3, 1.5, size=columns)
    projection = denoising_projection(csr_matrix(x), noise, scale, size)
    assert projection.shape == (columns, size)
    restored, to_restored = restored_rows(x, noise, scale)
    U, singular, Vt = np.linalg.svd(restored, full_matrices=False)
    assert singular[size - 1] > 1.1 * singular[size]  # else the last direction would be a matter of chance
    found = x @ projection
    np.testing.assert_allclose(np.linalg.norm(found, axis=0), singular[:size], rtol=1e-3)  # the largest first
    products = (U[:, :size] * singular[:size] ** 2) @ U[:, :size].T
    np.testing.assert_allclose(found @ found.T, products, rtol=0, atol=1e-5 * np.abs(products).max())
    new = random_rows(10, columns, seed=5)  # rows that it was not learnt from
    expected = new @ to_restored @ Vt[:size].T
    np.testing.assert_allclose(
        np.abs(new @ projection), np.abs(expected), rtol=5e-3, atol=5e-3 * np.abs(expected).max()
    )


def test_all_directions_keep_all_of_the_restored_rows():
    x, scale = random_rows(20), np.linspace(0.5, 1.5, COLUMNS)
    projection = denoising_projection(csr_matrix(x), 0.5, scale, size=99)
    restored, _ = restored_rows(x, 0.5, scale)
    assert projection.shape == (COLUMNS, COLUMNS)
    np.testing.assert_allclose((x @ projection) @ (x @ projection).T, restored @ restored.T, atol=1e-4)


def test_a_column_that_does_not_occur_is_nothing():
    x = random_rows(20)
    x[:, 2] = 0
    projection = denoising_projection(csr_matrix(x), 0.5, np.ones(COLUMNS), 3)
    assert np.isfinite(projection).all()
    np.testing.assert_allclose(projection[2], 0, atol=1e-6)


def test_the_projection_is_the_same_each_time():
    x = csr_matrix(random_rows(20))
    first, second = (denoising_projection(x, 0.5, np.ones(COLUMNS), 3) for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(("n", "size"), [(16, 1), (7, 3), (5, 5), (1, 1), (1000, 53), (17, 1)])
@pytest.mark.parametrize("seed", [0, 7])
def test_the_start_is_that_of_models_which_torch_has_fitted(n: int, size: int, seed: int):
    expected = torch.randn(n, size, generator=torch.Generator().manual_seed(seed)).numpy()
    if n * size < 16:  # torch draws fewer than 16 numbers in another way; so few directions are all there are
        assert _random_start(n, size, seed).shape == (n, size)
        return
    found = _random_start(n, size, seed)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("columns", [4, 40])
def test_blocks_of_rows_make_no_difference(monkeypatch: pytest.MonkeyPatch, columns: int):
    x, scale = csr_matrix(random_rows(30, columns)), np.linspace(1, 2, columns)
    whole = denoising_projection(x, 0.5, scale, 3)
    monkeypatch.setattr(denoising, "_PRODUCT_ROWS", 7)
    monkeypatch.setattr(denoising, "_MOST_ROWS", 4)
    np.testing.assert_allclose(denoising_projection(x, 0.5, scale, 3), whole, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("rows", "columns"), [(1500, 4000), (6000, 1500)])
def test_of_large_matrices_there_is_one_dense_square(rows: int, columns: int):
    random = np.random.default_rng(0)
    indices = np.argsort(random.random((rows, columns)), axis=1)[:, :60].ravel().astype(np.int32)
    x = csr_matrix((np.ones(60 * rows, np.float32), indices, np.arange(0, 60 * rows + 1, 60)), shape=(rows, columns))
    x.sort_indices()
    tracemalloc.start()
    denoising_projection(x, 0.8, np.ones(columns), 5)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    rest = 4 * x.data.nbytes + 8 * 55 * 4 * (rows + columns) + 12 * 512 * min(rows, columns)
    assert peak < 4 * min(rows, columns) ** 2 + rest
