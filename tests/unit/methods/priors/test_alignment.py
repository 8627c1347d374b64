"""Answers that have given class shares."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from multidomain.methods.priors.alignment import align_predictions, align_to_prior, predicted_shares


def skewed(n_classes: int, spread: float = 2.0) -> np.ndarray:
    """Logits that prefer the last class."""
    random = np.random.default_rng(n_classes)
    return spread * random.normal(size=(80, n_classes)) + 3 * np.arange(n_classes)


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.9, 0.1), (0.2, 0.5, 0.3), (1 / 3, 1 / 3, 1 / 3), (0.25,) * 4])
def test_mean_probabilities_are_the_shares(shares: tuple[float, ...]):
    logits = skewed(len(shares))
    before = logits.copy()
    assert np.abs(softmax(logits, axis=1).mean(axis=0) - shares).max() > 0.2
    matched = align_to_prior(logits, np.array(shares))
    np.testing.assert_allclose(softmax(matched, axis=1).mean(axis=0), shares, atol=1e-4)
    np.testing.assert_array_equal(logits, before)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("shares", [(0.0, 1.0), (0.4, 0.0, 0.6)])
def test_a_class_of_share_0_is_never_the_answer(shares: tuple[float, ...]):
    p = softmax(align_to_prior(skewed(len(shares)), np.array(shares)), axis=1)
    np.testing.assert_array_equal(p[:, np.array(shares) == 0], 0)
    np.testing.assert_allclose(p.mean(axis=0), shares, atol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_one_number_is_added_to_each_class(n_classes: int):
    """So the order of rows by the logits of a class, or by the difference of two, stays."""
    logits = skewed(n_classes)
    added = align_to_prior(logits, np.full(n_classes, 1 / n_classes)) - logits
    np.testing.assert_allclose(added, np.tile(added[0], (len(logits), 1)), atol=1e-9)
    assert np.ptp(added[0]) > 1


def test_answers_that_have_the_shares_stay():
    logits = np.array([[1.0, -1.0], [-1.0, 1.0], [2.0, 0.0], [0.0, 2.0]])
    np.testing.assert_allclose(softmax(align_to_prior(logits, np.array([0.5, 0.5])), axis=1), softmax(logits, axis=1))


@pytest.mark.parametrize("spread", [30.0, 300.0])
@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.2, 0.5, 0.3)])
def test_sure_answers_are_matched_too(shares: tuple[float, ...], spread: float):
    """Scores that separate the development rows are scaled up a lot; within half a row is all that can be asked."""
    logits = skewed(len(shares), spread) + spread * np.arange(len(shares))
    p = softmax(align_to_prior(logits, np.array(shares)), axis=1)
    np.testing.assert_allclose(p.mean(axis=0), shares, atol=0.5 / len(logits))


@pytest.mark.parametrize("spread", [0.01, 2.0, 300.0])
@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.9, 0.1), (0.2, 0.5, 0.3), (0.25,) * 4])
def test_each_class_is_predicted_for_its_share_of_the_rows(shares: tuple[float, ...], spread: float):
    logits = skewed(len(shares), spread)
    aligned = align_predictions(logits, np.array(shares))
    predicted = predicted_shares(aligned, np.zeros(len(logits), int))[0]
    np.testing.assert_allclose(predicted, shares, atol=1.5 / len(logits))
    np.testing.assert_allclose(aligned - logits, np.tile((aligned - logits)[0], (len(logits), 1)), atol=1e-9)


def test_predicted_shares_are_those_of_each_domain():
    logits = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [2.0, 0.0], [0.0, 1.0]])
    shares = predicted_shares(logits, np.array([0, 0, 0, 0, 2]))
    assert {d: share.tolist() for d, share in shares.items()} == {0: [0.5, 0.5], 2: [0.0, 1.0]}
