"""Temperature scaling: known scales and biases are found again, and little data says little."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from multidomain.methods.calibration import NEVER, Calibration, calibrate, calibrate_domains


def drawn(scale: float, bias: list[float], rows: int = 40_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores, and labels drawn from the probabilities that they stand for after calibration."""
    random = np.random.default_rng(seed)
    scores = random.normal(size=(rows, len(bias)))
    p = softmax(scale * scores + np.array(bias), axis=1)
    return scores, (random.random((rows, 1)) > p.cumsum(axis=1)).sum(axis=1)


@pytest.mark.parametrize(("scale", "bias"), [(3.0, [0.5, -0.5]), (0.4, [0.0, 0.0]), (2.0, [1.0, -0.2, -0.8])])
def test_the_scale_and_biases_that_labels_were_drawn_with_are_found(scale: float, bias: list[float]):
    found = calibrate(*drawn(scale, bias))
    assert found.scale == pytest.approx(scale, rel=0.05)
    np.testing.assert_allclose(found.bias, bias, atol=0.05)


def test_the_penalised_likelihood_is_at_its_minimum():
    scores, y = drawn(2.0, [0.7, -0.1, -0.6], rows=60)
    towards, strength = Calibration(1.5, np.array([0.2, 0.1, -0.3])), 4.0

    def loss(values: np.ndarray) -> float:
        log_p = sum(log_softmax(np.exp(values[0]) * s + values[1:])[c] for s, c in zip(scores, y, strict=True))
        away = values - np.r_[np.log(towards.scale), towards.bias]
        return -log_p + strength / 2 * sum(away**2)

    best = minimize(loss, np.zeros(4), method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-10, "maxiter": 4000}).x
    found = calibrate(scores, y, towards=towards, strength=strength)
    assert found.scale == pytest.approx(np.exp(best[0]), rel=1e-3)
    np.testing.assert_allclose(found.bias, best[1:] - best[1:].mean(), atol=1e-3)


def test_without_a_bias_the_most_probable_class_stays():
    scores, y = drawn(2.0, [1.0, -1.0], rows=500)
    found = calibrate(scores, y, with_bias=False)
    assert not found.bias.any() and found.scale != 1
    np.testing.assert_array_equal(found.logits(scores).argmax(axis=1), scores.argmax(axis=1))


def test_without_rows_nothing_changes():
    towards = Calibration(2.0, np.array([0.3, -0.3]))
    assert calibrate(np.empty((0, 2)), np.empty(0, dtype=int), towards=towards) is towards


def test_rows_of_a_class_that_is_never_predicted_are_ignored():
    scores, y = drawn(2.0, [0.0, 0.0], rows=300)
    with_never = np.c_[scores, np.full(300, NEVER)]
    more = np.r_[with_never, with_never[:50]], np.r_[y, np.full(50, 2)]
    assert calibrate(*more, with_bias=False).scale == pytest.approx(calibrate(scores, y, with_bias=False).scale)


def test_a_domain_with_few_rows_stays_near_the_common_temperature():
    many, few = drawn(3.0, [0.0, 0.0], rows=5000), drawn(0.3, [0.0, 0.0], rows=10, seed=1)
    other = drawn(1.0, [0.0, 0.0], rows=5000, seed=2)
    parts = (many, few, other)
    d = np.repeat([0, 1, 2], [len(part[1]) for part in parts])
    common, of_domain = calibrate_domains(
        np.concatenate([s for s, _ in parts]), np.concatenate([y for _, y in parts]), d, strength=2
    )
    assert of_domain[0].scale == pytest.approx(3.0, rel=0.1) and of_domain[2].scale == pytest.approx(1.0, rel=0.1)
    alone = calibrate(*few, with_bias=False).scale
    assert abs(np.log(of_domain[1].scale / common.scale)) < 0.5 * abs(np.log(alone / common.scale))
