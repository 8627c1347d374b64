"""Divergences of known distributions, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from multidomain.objectives.divergence import (
    jensen_shannon,
    jsd_from_cross_entropy,
    l2_optimum,
    mean_neyman_chi_square,
    neyman_chi_square,
    nll_optimum,
    optimal_discriminator,
)

P = np.array([[0.5, 0.5, 0.0, 0.0], [0.25, 0.25, 0.5, 0.0]])  # no domain visits the last cell


def test_jensen_shannon_by_hand() -> None:
    mean = [0.375, 0.375, 0.25]
    kl_1 = 2 * 0.5 * math.log(0.5 / mean[0])
    kl_2 = 2 * 0.25 * math.log(0.25 / mean[0]) + 0.5 * math.log(0.5 / mean[2])
    assert jensen_shannon(P) == pytest.approx((kl_1 + kl_2) / 2)


def test_jensen_shannon_equals_its_entropy_form() -> None:
    def entropy(p: np.ndarray) -> float:
        return -sum(x * math.log(x) for x in p if x > 0)

    assert jensen_shannon(P) == pytest.approx(entropy(P.mean(axis=0)) - np.mean([entropy(p) for p in P]))


def test_neyman_chi_square_by_hand() -> None:
    each = [2 * 0.125**2 / 0.375 + 0.25, 2 * 0.125**2 / 0.375 + 0.25]
    assert neyman_chi_square(P) == pytest.approx(each)
    assert mean_neyman_chi_square(P) == pytest.approx(np.mean(each))


def test_optimal_discriminator_is_a_distribution_in_every_cell() -> None:
    D = optimal_discriminator(P)
    assert pytest.approx(np.array([[2 / 3, 1 / 3], [2 / 3, 1 / 3], [0, 1], [0.5, 0.5]])) == D


def test_closed_forms() -> None:
    assert nll_optimum(P) == pytest.approx(-2 * math.log(2) + 2 * jensen_shannon(P))
    assert l2_optimum(P) == mean_neyman_chi_square(P)


def test_one_domain_diverges_from_nothing() -> None:
    assert jensen_shannon([[0.5, 0.5]]) == 0.0
    assert nll_optimum([[0.5, 0.5]]) == 0.0
    assert l2_optimum([[0.5, 0.5]]) == 0.0


def test_jsd_from_cross_entropy() -> None:
    assert jsd_from_cross_entropy(0.0, 4) == pytest.approx(math.log(4))
    assert jsd_from_cross_entropy(math.log(4) + 0.1, 4) == pytest.approx(-0.1)
    with pytest.raises(ValueError, match="Expected at least 1 domain, got 0"):
        jsd_from_cross_entropy(0.0, 0)


@pytest.mark.parametrize(
    ("distributions", "message"),
    [
        ([0.5, 0.5], r"shape \(N, K\), one per row; got shape \(2,\)"),
        (np.empty((0, 3)), r"got shape \(0, 3\)"),
        ([[0.5, 0.5], [1.5, -0.5]], "row 1 has a negative or non-finite value"),
        ([[math.nan, 1.0]], "row 0 has a negative or non-finite value"),
        ([[0.5, 0.5], [0.5, 0.4]], "row 1 sums to 0.9"),
    ],
)
@pytest.mark.parametrize("function", [jensen_shannon, neyman_chi_square, optimal_discriminator, nll_optimum])
def test_what_is_no_distribution_is_refused(function, distributions, message) -> None:
    with pytest.raises(ValueError, match=message):
        function(distributions)
