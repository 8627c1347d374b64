"""Scores, against scikit-learn and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score

from multidomain.metrics import (
    accuracy,
    by_domain,
    calibration_error,
    domain_mean,
    equal_mass_bins,
    macro_f1,
    rows_of_each,
    selection_score,
    two_class_scores,
)


@pytest.mark.parametrize("values", [np.array([], dtype=object), np.array([3, 1, 3, 3, 2, 1]), np.array(list("banana"))])
def test_rows_of_each_value_are_those_that_a_mask_finds(values):
    found = rows_of_each(values)
    assert list(found) == list(dict.fromkeys(values.tolist()))
    for value, rows in found.items():
        assert rows.tolist() == np.flatnonzero(values == value).tolist()


def test_scores_of_each_domain_in_the_order_of_their_first_appearance():
    domains = np.array(["pans", "books", "pans", "books", "books"])
    y, predicted = np.array([0, 1, 1, 0, 1]), np.array([0, 1, 0, 1, 1])
    scores = by_domain(accuracy, y, predicted, domains)
    assert list(scores.items()) == [("pans", 1 / 2), ("books", pytest.approx(2 / 3))]
    seen = {}
    by_domain(lambda a, b: seen.setdefault(len(a), (a.tolist(), b.tolist())) and 0.0, y, predicted, domains)
    assert seen == {2: ([0, 1], [0, 0]), 3: ([1, 0, 1], [1, 1, 1])}  # rows of the domain, in their order


def test_domains_may_be_codes():
    scores = by_domain(accuracy, np.array([0, 1]), np.array([0, 0]), np.array([3, 1]))
    assert scores == {3: 1.0, 1: 0.0}
    assert by_domain(accuracy, np.array([]), np.array([]), np.array([])) == {}


def random_labels(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels and predictions of up to five classes, some of which are in one of both only."""
    random = np.random.default_rng(seed)
    n, classes = random.integers(1, 30), random.permutation(5)
    y = random.choice(classes[: random.integers(1, 5)], size=n)
    predicted = np.where(random.random(n) < 0.5, y, random.choice(classes[random.integers(0, 4) :], size=n))
    return y, predicted


@pytest.mark.parametrize("seed", range(100))
def test_macro_f1_and_accuracy_are_scikit_learn_s(seed: int):
    y, predicted = random_labels(seed)
    assert macro_f1(y, predicted) == pytest.approx(f1_score(y, predicted, average="macro"), abs=1e-12)
    assert accuracy(y, predicted) == pytest.approx(accuracy_score(y, predicted), abs=1e-12)


def test_macro_f1_of_class_names():
    y, predicted = np.array(["a", "a", "b", "c"], dtype=object), np.array(["a", "b", "b", "b"], dtype=object)
    assert macro_f1(y, predicted) == pytest.approx((2 / 3 + 1 / 2 + 0) / 3)
    assert macro_f1(y, y) == 1.0


def naive_scores(y: list[int], predicted: list[int], domains: list[str]) -> tuple[float, float, float]:
    """Accuracy and macro-F1, mean over domains, and the lowest accuracy, by loops over rows."""
    accuracies, macros = [], []
    for domain in set(domains):
        pairs = [(a, b) for a, b, d in zip(y, predicted, domains, strict=True) if d == domain]
        accuracies.append(sum(a == b for a, b in pairs) / len(pairs))
        f1 = []
        for c in {a for a, _ in pairs} | {b for _, b in pairs}:
            found = sum(a == b == c for a, b in pairs)
            precision = found / max(1, sum(b == c for _, b in pairs))
            recall = found / max(1, sum(a == c for a, _ in pairs))
            f1.append(0 if found == 0 else 2 * precision * recall / (precision + recall))
        macros.append(sum(f1) / len(f1))
    n = len(accuracies)
    return sum(accuracies) / n, sum(macros) / n, min(accuracies)


@pytest.mark.parametrize("seed", range(40))
def test_what_selects_a_model_equals_a_naive_loop(seed: int):
    y, predicted = random_labels(seed)
    domains = np.random.default_rng(seed).choice(["pans", "books", "shoes"], size=len(y))
    found = [selection_score(metric, y, predicted, domains) for metric in ("accuracy", "macro-f1", "worst-domain")]
    assert found == pytest.approx(naive_scores(y.tolist(), predicted.tolist(), domains.tolist()), abs=1e-12)


def test_the_calibration_error_of_equal_bins_equals_a_naive_loop():
    random = np.random.default_rng(0)
    first = random.random(100)
    p, y = np.stack([first, 1 - first], axis=1), random.integers(0, 2, size=100)
    rows = sorted(range(100), key=lambda i: max(p[i]))
    bins = [rows[:34], rows[34:67], rows[67:]]
    assert [one.tolist() for one in equal_mass_bins(p.max(axis=1), 3)] == bins
    error = 0.0
    for one in bins:
        right = sum(p[i].argmax() == y[i] for i in one) / len(one)
        error += len(one) / 100 * abs(right - sum(max(p[i]) for i in one) / len(one))
    assert calibration_error(y, p, bins=3) == pytest.approx(error)


def test_every_domain_counts_the_same():
    assert domain_mean(score for score in (1.0, 0.5, 0.0)) == 0.5
    assert domain_mean({"books": 0.25}.values()) == 0.25


@pytest.mark.parametrize("shape", [(), (1,), (4,), (3, 2), (0,)])
def test_two_class_scores(shape: tuple[int, ...]):
    score = np.random.default_rng(0).normal(size=shape)
    both = two_class_scores(np.asarray(score))
    assert both.shape == (*shape, 2)
    np.testing.assert_array_equal(both[..., 1] - both[..., 0], score)
    np.testing.assert_array_equal(both.sum(axis=-1), np.zeros(shape))


def test_two_class_scores_are_log_odds():
    """Their softmax is the logistic function of the score."""
    score = np.array([-3.0, 0.0, 1.5])
    both = np.exp(two_class_scores(score))
    np.testing.assert_allclose((both / both.sum(axis=1, keepdims=True))[:, 1], 1 / (1 + np.exp(-score)))
