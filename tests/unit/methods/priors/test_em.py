"""EM for class priors: against the likelihood it maximises, and on label shift that is really drawn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, softmax

from multidomain.methods.priors.em import em_prior


def two_normals(share: float, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores of two unit normals at -1 and 1, and the exact probabilities under equal priors."""
    random = np.random.default_rng(seed)
    y = random.random(n) < share
    score = np.where(y, 1.0, -1.0) + random.normal(size=n)
    p = expit(2 * score)
    return y, np.stack([1 - p, p], axis=1)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.5, 0.9])
def test_the_result_maximises_the_likelihood(share: float):
    _, p = two_normals(share, 400)
    found = em_prior(p, np.array([0.5, 0.5]))

    def negative_likelihood(pi: float) -> float:
        return -sum(np.log((1 - pi) * row[0] + pi * row[1]) for row in p)

    best = minimize_scalar(negative_likelihood, bounds=(1e-4, 1 - 1e-4), method="bounded", options={"xatol": 1e-9}).x
    assert found[1] == pytest.approx(best, abs=1e-3)
    assert found.sum() == pytest.approx(1)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_a_shifted_prior_is_found(share: float):
    y, p = two_normals(share, 20_000)
    assert em_prior(p, np.array([0.5, 0.5]))[1] == pytest.approx(y.mean(), abs=0.02)


def test_the_prior_that_probabilities_were_calibrated_under_is_taken_out():
    y, p = two_normals(0.7, 20_000)
    calibrated = p * [0.8, 0.2]
    calibrated /= calibrated.sum(axis=1, keepdims=True)
    assert em_prior(calibrated, np.array([0.8, 0.2]))[1] == pytest.approx(y.mean(), abs=0.02)


def test_three_classes():
    random = np.random.default_rng(0)
    prior = np.array([0.6, 0.3, 0.1])
    y = random.choice(3, size=20_000, p=prior)
    logits = 2 * (np.eye(3)[y] + 0.5 * random.normal(size=(20_000, 3))) / 0.5**2 / 2
    found = em_prior(softmax(logits, axis=1), np.full(3, 1 / 3))
    np.testing.assert_allclose(found, np.bincount(y) / len(y), atol=0.02)


def test_a_class_that_nothing_speaks_for_is_not_ruled_out():
    p = np.tile([0.999, 0.001], (50, 1))
    found = em_prior(p, np.array([0.5, 0.5]))
    assert 0 < found[1] < 1e-3
