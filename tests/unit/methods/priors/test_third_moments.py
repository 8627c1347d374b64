"""Moment ratios: what they are by loops, what theory expects of them, and what they do not depend on."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from multidomain.methods.priors.third_moments import _parts, expected_ratio, moment_ratio, part_moments

COLUMNS = 60


def documents(share: float, n: int = 20_000, common: float = 0.0, seed: int = 0) -> tuple[csr_matrix, np.ndarray]:
    """Rows of columns that are higher in class 1, independent given the class but for something in common."""
    random = np.random.default_rng(seed)
    y = random.random(n) < share
    x = 0.3 * y[:, None] + random.normal(size=(n, COLUMNS)) + common * random.normal(size=(n, 1))
    return csr_matrix(x), y


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.75])
@pytest.mark.parametrize("common", [0.0, 0.15])
def test_the_ratio_is_as_expected(share: float, common: float):
    x, y = documents(share, common=common)
    weight = np.ones(COLUMNS)
    moments = part_moments(x, weight, y)
    assert moments.spread == pytest.approx((common / 0.3) ** 2, abs=0.02)
    found = moment_ratio(x, weight)
    assert moments.ratio == found
    expected = float(expected_ratio(y.mean(), moments.spread))
    assert found.value == pytest.approx(expected, abs=4 * found.noise**0.5)
    assert found.noise**0.5 < 0.15


def test_the_ratio_by_loops():
    x, _ = documents(0.3, n=40)
    weight = np.random.default_rng(1).random(COLUMNS)
    thirds, products, n_partitions = [], [], 0
    for z in _parts(x, weight):
        np.testing.assert_allclose(z.sum(axis=1), x @ weight)
        means = [sum(row[v] for row in z) / 40 for v in range(3)]
        centred = [[row[v] - means[v] for v in range(3)] for row in z]
        thirds.append(sum(a * b * c for a, b, c in centred) / 40)
        pairs = [sum(row[u] * row[v] for row in centred) / 40 for u, v in ((0, 1), (0, 2), (1, 2))]
        products.append(np.prod(pairs))
        n_partitions += 1
    assert n_partitions > 1
    assert moment_ratio(x, weight).value == pytest.approx(np.mean(thirds) / np.mean(products) ** 0.5)


def test_a_threshold_and_a_scale_do_not_matter():
    x, _ = documents(0.2, n=2000)
    weight = np.ones(COLUMNS)
    shifted = csr_matrix(x.toarray() + 5)
    assert moment_ratio(shifted, weight).value == pytest.approx(moment_ratio(x, weight).value, rel=1e-6)
    assert moment_ratio(x, 7 * weight).value == pytest.approx(moment_ratio(x, weight).value, rel=1e-6)
    assert moment_ratio(x, 7 * weight).signal == pytest.approx(7 * moment_ratio(x, weight).signal)


def test_parts_without_anything_in_common_say_nothing():
    x = csr_matrix(np.zeros((10, COLUMNS)))
    found = moment_ratio(x, np.ones(COLUMNS))
    assert (found.value, found.signal) == (0.0, 0.0) and found.noise > 1e5


def test_classes_that_mirror_each_other_have_opposite_ratios():
    share = np.array([0.1, 0.4])
    np.testing.assert_allclose(expected_ratio(share, 0.2), -np.asarray(expected_ratio(1 - share, 0.2)))
    assert expected_ratio(0.5, 0.2) == 0
