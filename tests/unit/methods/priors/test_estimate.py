"""Estimated class priors: right where they can be known, wide where not, and moved by labels of the domain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix, vstack

from multidomain.methods.data import Examples
from multidomain.methods.priors.estimate import estimate_priors, labelled_prior

COLUMNS = 120


def rows_of(d: int, share: float, n: int, shift: float = 0.0, strength: float = 1.0, seed: int = 0) -> Examples:
    """Bags of words: 40 that speak for class 1, 40 against it, and 40 that say nothing.

    With a `shift` the domain has more of the words for class 1, whatever the class.
    """
    random = np.random.default_rng([seed, d])
    y = (random.random(n) < share).astype(int)
    lean = strength * (2 * y - 1)[:, None] * np.repeat([1, -1, 0], 40) + shift * np.repeat([1, -1, 0], 40)
    x = random.poisson(0.25 * np.exp(0.45 * lean))
    x[:, -1] += 1  # no row is empty
    return Examples(csr_matrix(x, dtype=np.float32), np.full(n, d), y)


def joined(parts: list[Examples]) -> Examples:
    return Examples(
        vstack([part.x for part in parts], format="csr"),
        np.concatenate([part.d for part in parts]),
        np.concatenate([part.y for part in parts]),
    )


SOURCES = joined([rows_of(d, 0.5, 400, shift) for d, shift in ((0, -0.1), (1, 0.0), (2, 0.1))])


def without_labels(rows: Examples) -> Examples:
    return replace(rows, y=None)


@pytest.mark.parametrize("share", [0.15, 0.5, 0.8])
def test_the_prior_of_a_similar_domain_is_found(share: float):
    target = rows_of(3, share, 800)
    (found,) = estimate_priors(SOURCES, without_labels(target), 2).values()
    assert found.prior[1] == pytest.approx(share, abs=0.1)
    assert found.low[1] < share < found.high[1]
    assert found.prior.sum() == pytest.approx(1)
    np.testing.assert_allclose(found.low[0], 1 - found.high[1], atol=0.02)
    assert found.certainty > 0.5 and found.labels == 0


def test_a_shift_of_the_score_is_told_from_a_shift_of_the_prior():
    """The domain has even classes, and words that speak for class 1 are more frequent in both."""
    target = rows_of(3, 0.5, 2000, shift=0.25)
    (found,) = estimate_priors(SOURCES, without_labels(target), 2).values()
    assert abs(found.prior[1] - 0.5) < 0.15
    assert found.low[1] < 0.5 < found.high[1]


def test_words_that_say_nothing_leave_the_prior_open():
    target = rows_of(3, 0.9, 400, strength=0.0)
    (found,) = estimate_priors(SOURCES, without_labels(target), 2).values()
    assert found.high[1] - found.low[1] > 0.6
    assert found.certainty < 0.6


def test_labels_of_the_domain_narrow_the_interval():
    target = rows_of(3, 0.8, 400, shift=-0.3)
    text = without_labels(target.select(np.arange(40, 400)))
    few = joined([SOURCES, target.select(np.arange(40))])
    (alone,), (helped,) = (estimate_priors(rows, text, 2).values() for rows in (SOURCES, few))
    assert helped.labels == 40
    assert helped.high[1] - helped.low[1] < alone.high[1] - alone.low[1]
    assert abs(helped.prior[1] - 0.8) <= abs(alone.prior[1] - 0.8) + 0.02


def test_the_labelled_prior_is_the_centre():
    uneven = joined([rows_of(d, 0.2, 400) for d in range(3)])
    target = rows_of(3, 0.2, 600)
    (found,) = estimate_priors(uneven, without_labels(target), 2).values()
    assert found.prior[1] == pytest.approx(0.2, abs=0.07)


def test_one_source_only_gives_a_wide_interval():
    one = rows_of(0, 0.5, 400)
    target = without_labels(rows_of(3, 0.5, 400))
    (alone,), (several,) = (estimate_priors(rows, target, 2).values() for rows in (one, SOURCES))
    assert alone.high[1] - alone.low[1] > several.high[1] - several.low[1]


def test_rows_of_one_class_say_nothing():
    alike = replace(SOURCES, y=np.zeros(len(SOURCES), int))
    (found,) = estimate_priors(alike, without_labels(rows_of(3, 0.5, 50)), 2).values()
    assert found.certainty == 0
    np.testing.assert_array_equal([found.low, found.high], [[0, 0], [1, 1]])


def test_a_single_row_of_text():
    (found,) = estimate_priors(SOURCES, without_labels(rows_of(3, 0.5, 1)), 2).values()
    assert found.high[1] - found.low[1] > 0.6


def test_three_classes_and_several_domains():
    random = np.random.default_rng(0)

    def rows(d: int, prior: list[float], n: int) -> Examples:
        y = random.choice(3, size=n, p=prior)
        x = random.poisson(0.2 + 0.5 * (np.arange(COLUMNS) // 40 == y[:, None]))
        return Examples(csr_matrix(x, dtype=np.float32), np.full(n, d), y)

    sources = joined([rows(d, [1 / 3] * 3, 300) for d in range(3)])
    targets = [rows(3, [0.6, 0.3, 0.1], 500), rows(4, [0.2, 0.2, 0.6], 500)]
    found = estimate_priors(sources, without_labels(joined(targets)), 3)
    assert list(found) == [3, 4]
    for target, estimate in zip(targets, found.values(), strict=True):
        np.testing.assert_allclose(estimate.prior, np.bincount(target.y) / 500, atol=0.12)
        assert estimate.prior.argmax() == np.bincount(target.y).argmax()


def test_the_same_rows_give_the_same_estimate():
    target = without_labels(rows_of(3, 0.3, 200))
    (first,), (second,) = (estimate_priors(SOURCES, target, 2).values() for _ in range(2))
    np.testing.assert_array_equal(first.prior, second.prior)


def test_the_labelled_prior_rules_nothing_out():
    rows = Examples(csr_matrix(np.ones((3, 1))), np.zeros(3, int), np.array([0, 0, 1]), np.array([1.0, 1.0, 2.0]))
    np.testing.assert_allclose(labelled_prior(rows, 3), [2 / 3, 1 / 3, 1e-4], atol=1e-4)
    np.testing.assert_allclose(labelled_prior(rows, 3, weighted=True), [0.5, 0.5, 1e-4], atol=1e-4)


def test_weights_of_classes_leave_the_estimate_where_it_is():
    """They say how much an error costs, not how frequent a class is."""
    uneven = joined([rows_of(d, 0.2, 400) for d in range(3)])
    balanced = replace(uneven, weight=np.where(uneven.y == 1, 2.5, 0.625))
    text = without_labels(rows_of(3, 0.2, 600))
    plain, weighted = (estimate_priors(rows, text, 2)[3].prior[1] for rows in (uneven, balanced))
    assert weighted == pytest.approx(plain, abs=0.05) and weighted < 0.35


@pytest.mark.parametrize("n_labels", [0, 60, 400])
def test_an_estimate_lies_within_its_interval(n_labels: int):
    target = rows_of(3, 0.97, 1000)
    rows = joined([SOURCES, target.select(np.arange(n_labels))])
    found = estimate_priors(rows, without_labels(target.select(np.arange(n_labels, 1000))), 2)[3]
    assert (found.low <= found.prior).all() and (found.prior <= found.high).all()
    if n_labels:
        assert found.prior[1] > 0.94


def test_few_labels_of_a_domain_count_among_many_of_others(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("multidomain.methods.priors.estimate._MOST_ROWS", 300)
    target = rows_of(3, 0.8, 460)
    rows = joined([SOURCES, target.select(np.arange(60))])
    assert estimate_priors(rows, without_labels(target.select(np.arange(60, 460))), 2)[3].labels == 60


def test_a_class_that_a_labelled_domain_does_not_have():
    one_class = rows_of(2, 0.5, 400)
    one_class = one_class.select(one_class.y == 1)
    rows = joined([SOURCES.select(SOURCES.d < 2), one_class])
    found = estimate_priors(rows, without_labels(rows_of(3, 0.3, 600)), 2)[3]
    assert np.isfinite(found.prior).all() and found.low[1] < 0.3 < found.high[1]
