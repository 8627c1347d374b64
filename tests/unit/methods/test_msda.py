"""mSDA: a layer's weights against loops and against sampled noise, and the support vector machine on top."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from scipy.special import log_softmax

from multidomain.methods import msda
from multidomain.methods.base import FitContext
from multidomain.methods.data import Examples, TrainingData
from multidomain.methods.msda import MSDA, MSDASettings, denoising_weights
from multidomain.methods.task import Task

COLUMNS = 4


def random_text(n: int = 7, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.normal(size=(n, COLUMNS)) * (random.random((n, COLUMNS)) < 0.7) + 0.3


def naive_weights(h: np.ndarray, noise: float, ridge: float) -> np.ndarray:
    """W = P Q^-1, shape (columns, columns + 1), entry by entry from the formula."""
    n = h.shape[1]
    with_one = [[*row, 1.0] for row in h]
    q = [1 - noise] * n + [1.0]
    S, Q, P = np.zeros((n + 1, n + 1)), np.zeros((n + 1, n + 1)), np.zeros((n, n + 1))
    for j in range(n + 1):
        for k in range(n + 1):
            S[j, k] = sum(row[j] * row[k] for row in with_one)
            Q[j, k] = S[j, k] * q[j] * q[k] if j != k else S[j, j] * q[j] + ridge
            if j < n:
                P[j, k] = S[j, k] * q[k]
    return P @ np.linalg.inv(Q)


@pytest.mark.parametrize("noise", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("ridge", [1e-5, 0.3])
def test_weights_are_the_closed_form(noise: float, ridge: float):
    h = random_text()
    found = denoising_weights([h], noise, ridge)
    assert found.shape == (COLUMNS + 1, COLUMNS)
    np.testing.assert_allclose(found.T, naive_weights(h, noise, ridge), rtol=1e-8, atol=1e-10)


def test_weights_undo_noise_that_is_really_drawn():
    """Least squares from corrupted rows to the rows themselves, for 60,000 corruptions of each row.

    The scatter of 30 parts of them says how far the whole may be off: five standard errors, and these must be small
    against the weights for that to mean anything.
    """
    h, noise, ridge, parts, draws = random_text(), 0.4, 0.05, 30, 2_000
    random = np.random.default_rng(1)
    Q, P = np.zeros((parts, COLUMNS + 1, COLUMNS + 1)), np.zeros((parts, COLUMNS, COLUMNS + 1))
    for part in range(parts):
        for row in h:
            noisy = np.hstack([row * (random.random((draws, COLUMNS)) >= noise), np.ones((draws, 1))])
            Q[part] += noisy.T @ noisy / draws
            P[part] += row[:, None] * noisy.mean(axis=0)

    def solution(Q: np.ndarray, P: np.ndarray) -> np.ndarray:
        return P @ np.linalg.inv(Q + ridge * np.eye(COLUMNS + 1))

    error = np.std([solution(Q[part], P[part]) for part in range(parts)], axis=0) / parts**0.5
    assert error.max() < 0.01
    found = denoising_weights([h], noise, ridge).T
    assert np.abs(found).max() > 0.3
    assert (np.abs(found - solution(Q.mean(axis=0), P.mean(axis=0))) < 5 * error).all()


def test_blocks_of_rows_do_not_matter():
    h = random_text(11)
    whole = denoising_weights([h], 0.5, 1e-5)
    for sizes in ([1] * 11, [4, 4, 3], [10, 1]):
        blocks = np.split(h, np.cumsum(sizes)[:-1])
        np.testing.assert_allclose(denoising_weights(blocks, 0.5, 1e-5), whole, rtol=1e-9, atol=1e-12)


def fitted(y: np.ndarray, n_dev: int = 0, weight: np.ndarray | None = None, **settings: Any) -> tuple[MSDA, np.ndarray]:
    """A model of two domains, fitted to labelled rows, and these rows; the first are for development as well."""
    n_classes = y.max() + 1
    x, unlabelled = random_text(len(y), seed=2), random_text(9, seed=3)
    x[:, 0] += 0.8 * y
    task = Task(COLUMNS, n_classes, ("a", "b"), (0,))
    text = np.vstack([x, unlabelled])
    d = np.repeat([0, 1], [len(y), 9])

    data = TrainingData(
        task,
        tuple("xyz"[:n_classes]),
        Examples(csr_matrix(x), d[: len(y)], y, weight),
        Examples(csr_matrix(text), d),
        Examples(csr_matrix(x[:n_dev]), d[:n_dev], y[:n_dev]),
        d == 0,
    )
    model = MSDA(task, MSDASettings(**{"layers": 2, "ridge": 0.01, **settings}))
    model.fit(data, FitContext())
    return model, x


def naive_layers(x: np.ndarray, text: np.ndarray, layers: int, noise: float, ridge: float) -> np.ndarray:
    """The input and each layer's output, the layers fitted to all text."""
    outputs = [x]
    for _ in range(layers):
        W = naive_weights(text, noise, ridge)
        text, x = (np.tanh(np.array([W @ [*row, 1.0] for row in h])) for h in (text, x))
        outputs.append(x)
    return np.hstack(outputs)


def hinge_minimum(h: np.ndarray, y: np.ndarray, omega: np.ndarray, C: float) -> tuple[np.ndarray, float]:
    """Return w and b of the support vector machine, as a quadratic programme with slacks; y is -1 or 1."""
    n, m = h.shape
    signed = y[:, None] * np.hstack([h, np.ones((n, 1))])
    constraint = {"type": "ineq", "fun": lambda z: np.r_[z[-n:] - 1 + signed @ z[: m + 1], z[-n:]]}
    found = minimize(
        lambda z: 0.5 * z[:m] @ z[:m] + C * omega @ z[-n:],
        np.r_[np.zeros(m + 1), np.ones(n)],
        jac=lambda z: np.r_[z[:m], 0, C * omega],
        method="SLSQP",
        constraints=constraint,
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert found.success
    return found.x[:m], found.x[m]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_classifier_is_a_support_vector_machine_on_all_layers(n_classes: int, weighted: bool):
    y = np.arange(18) % n_classes
    weight = np.random.default_rng(4).uniform(0.3, 2, size=18) if weighted else None
    model, x = fitted(y, weight=weight, C=0.5)
    h = naive_layers(x, np.vstack([x, random_text(9, seed=3)]), layers=2, noise=0.5, ridge=0.01)
    omega = np.ones(18) if weight is None else weight
    machines = [hinge_minimum(h, np.where(y == c, 1.0, -1.0), omega, 0.5) for c in range(n_classes)]
    expected = np.stack([h @ w + b for w, b in machines], axis=1)
    if n_classes == 2:
        expected = expected[:, 1:] * [-0.5, 0.5]
    assert np.abs(expected).max() > 0.4
    found = model.logits(csr_matrix(x), None)
    np.testing.assert_allclose(found, expected, atol=5e-3)


def test_rows_that_are_dense_at_a_time_do_not_matter(monkeypatch: pytest.MonkeyPatch):
    y = np.arange(18) % 2
    model, _ = fitted(y, C=0.5)
    monkeypatch.setattr(msda, "_BLOCK", 4)
    other, _ = fitted(y, C=0.5)
    assert {"W", "weight", "bias"} < model.weights().keys()
    for name, value in model.weights().items():
        np.testing.assert_allclose(other.weights()[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_scores_are_scaled_to_the_development_rows():
    y = np.arange(18) % 2
    raw, x = fitted(y, C=0.1)
    scaled, _ = fitted(y, n_dev=18, C=0.1)
    before, after = (model.logits(csr_matrix(x), 0) for model in (raw, scaled))
    scale = after[0, 1] / before[0, 1]
    assert scale > 1.5  # the margins of so small a C are timid
    np.testing.assert_allclose(after, scale * before, rtol=1e-4, atol=1e-5)

    def loss(logits: np.ndarray) -> float:
        return -log_softmax(logits, axis=1)[np.arange(18), y].mean()

    assert all(loss(factor * after) > loss(after) for factor in (1 / scale, 0.8, 1.25))


def test_every_layer_reads_the_one_below():
    y = np.arange(18) % 2
    one, three = fitted(y, layers=1, C=0.5)[0], fitted(y, layers=3, C=0.5)[0]
    assert (one.W.shape, three.W.shape) == ((1, 5, 4), (3, 5, 4))
    assert (one.weight.shape, three.weight.shape) == ((8, 2), (16, 2))
    np.testing.assert_allclose(one.W[0], three.W[0], rtol=1e-9, atol=0)
    assert np.abs(three.W[1] - three.W[0]).max() > 0.05
