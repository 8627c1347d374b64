"""Class biases of domains with labels, and the leave-one-out logits that they are fitted to."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random_array
from scipy.special import softmax

from multidomain import MultiDomainClassifier
from multidomain.methods.data import Examples
from multidomain.methods.sped.class_biases import class_biases
from multidomain.methods.sped.solver import Solver
from multidomain.methods.sped.weights import BothViews

NOTHING = csr_matrix((0, 0), dtype=np.float32)


def examples(y: np.ndarray, d: np.ndarray, weight: np.ndarray | None = None) -> Examples:
    return Examples(NOTHING, d, y, weight)


def drawn(n: int, prior: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Calibrated logits of rows with this class prior, and labels that follow them."""
    random = np.random.default_rng(seed)
    y = random.choice(len(prior), n, p=prior)
    means = 2 * np.eye(len(prior))
    x = means[y] + random.normal(size=(n, len(prior)))
    return x @ means.T + np.log(prior), y


@pytest.mark.parametrize("prior", [np.array([0.5, 0.5]), np.array([0.2, 0.3, 0.5])])
def test_a_bias_that_should_not_be_there_is_taken_back(prior: np.ndarray):
    logits, y = drawn(20_000, prior, 0)
    too_much = np.linspace(-1, 1, len(prior))
    found = class_biases(logits + too_much, examples(y, np.zeros(len(y), int)))
    assert list(found) == [0]
    np.testing.assert_allclose(found[0], -too_much, atol=0.06)
    assert abs(found[0].sum()) < 1e-9
    shares = softmax(logits + too_much + found[0], axis=1).mean(axis=0)
    np.testing.assert_allclose(shares, np.bincount(y) / len(y), atol=1e-3)


def test_most_biases_that_chance_makes_are_none():
    found = []
    for seed in range(100):
        logits, y = drawn(400, np.array([0.5, 0.5]), seed)
        found.append(class_biases(logits, examples(y, np.zeros(len(y), int)))[0][1])
    assert 50 < (np.abs(found) < 1e-3).sum() < 85  # 68 % are within one standard error
    assert abs(np.mean(found)) < 0.05


def test_a_domain_with_another_prior_keeps_three_quarters_of_the_difference():
    parts = [drawn(20_000, np.array(prior), seed) for seed, prior in enumerate([(0.9, 0.1), (0.1, 0.9)])]
    logits, y = (np.concatenate(both) for both in zip(*parts, strict=True))
    found = class_biases(logits, examples(y, np.repeat([0, 1], 20_000)))
    expected = 0.25 * np.log(9) / 2
    np.testing.assert_allclose(found[0], [-expected, expected], atol=0.06)
    np.testing.assert_allclose(found[1], [expected, -expected], atol=0.06)


def test_rows_count_by_their_weight():
    logits, y = drawn(4_000, np.array([0.6, 0.4]), 0)
    times = np.array([1, 3])[y]
    weighted = class_biases(logits, examples(y, np.zeros(len(y), int), times.astype(float)))[0]
    rows = np.repeat(np.arange(len(y)), times)
    repeated = class_biases(logits[rows], examples(y[rows], np.zeros(len(rows), int)))[0]
    np.testing.assert_allclose(weighted, repeated, atol=0.01)
    assert weighted[1] - weighted[0] > 0.5


def test_few_rows_and_a_class_without_any_draw_the_bias_towards_that_of_all_domains():
    logits, y = drawn(10_000, np.array([0.5, 0.5]), 0)
    too_much = np.array([-1.0, 1.0])
    few = np.flatnonzero(y == 1)[:3]
    d = np.zeros(len(y), int)
    d[few] = 1
    found = class_biases(logits + too_much, examples(y, d))
    assert set(found) == {0, 1}
    np.testing.assert_allclose(found[1], found[0], atol=0.25)


@pytest.mark.parametrize("weight", [1e-4, 30.0])
def test_only_the_ratio_of_weights_matters(weight: float):
    logits, y = drawn(400, np.array([0.9, 0.1]), 0)
    d = np.zeros(len(y), int)
    expected, weighted = (
        class_biases(logits + np.array([0, 2]), examples(y, d, w))[0] for w in (None, np.full(len(y), weight))
    )
    np.testing.assert_allclose(weighted, expected, atol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("length", [0.0, 0.7])
def test_leave_one_out_logits_are_close_to_those_of_models_without_the_row(n_classes: int, length: float):
    n, random = 60, np.random.default_rng(0)
    words = csr_matrix(random_array((n, 400), density=0.05, random_state=0, dtype=np.float32))
    words.data /= np.repeat(np.sqrt(words.multiply(words).sum(axis=1).A1), np.diff(words.indptr))
    y, d = random.integers(0, n_classes, n), random.integers(0, 2, n)
    words = words + csr_matrix((np.full(n, 0.6, np.float32), (range(n), y)), shape=words.shape)
    rows = BothViews(words.tocsr(), random.normal(size=(n, 200)).astype(np.float32) / 200**0.5, d)
    solver = Solver(rows, 2, n_classes, private=0.5)
    solved = solver.solve(y, np.ones(n), length)
    found = solver.left_out(solved, length, 40)
    learnt = solved.weights.logits(rows.select(np.arange(40)))
    exact = np.empty_like(found)
    for i in range(len(exact)):
        others = np.arange(n) != i
        refitted = Solver(rows.select(others), 2, n_classes, private=0.5).solve(y[others], np.ones(n - 1), length)
        exact[i] = refitted.weights.logits(rows.select(np.array([i])))
    assert np.abs(found - exact).mean() < 0.5 * np.abs(learnt - exact).mean()


def test_a_model_follows_the_class_prior_of_each_domain():
    """Words tell little here, so that the class prior decides; without private weights only the biases know it."""
    random = np.random.default_rng(0)
    d = np.repeat(["mostly good", "mostly bad"], 300)
    y = random.random(600) < np.where(d == "mostly good", 0.85, 0.15)
    tells = random.random(600) < 0.6
    texts = [f"{'fine' if good == told else 'poor'} {random.integers(50)}" for good, told in zip(y, tells, strict=True)]
    settings = {"rounds": 0, "denoised": 0, "private": 0.0, "C": 1.0}
    model = MultiDomainClassifier("sped", method_settings=settings, random_state=0).fit(texts, y, domains=d)
    for word in ("fine pan", "poor pan"):
        p = [model.predict_proba([word], domains=[name])[0, 1] for name in ("mostly good", "mostly bad", None)]
        assert p[0] > 0.6 and p[1] < 0.4 and p[1] < p[2] < p[0]
