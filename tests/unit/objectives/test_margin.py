"""Losses of the margin: values against the formulas, slopes against finite differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import get_args

import numpy as np
import pytest

from multidomain.objectives.margin import MARGIN_LOSSES, Loss

MARGINS = [-3.7, -1.0, -0.2, 0.0, 0.4, 0.999, 1.001, 1.8, 5.0]  # 1, where the hinge bends, has a neighbour on each side

FORMULAS: dict[str, Callable[[float, float], float]] = {
    "ls": lambda y, s: (y - s) ** 2,
    "svm": lambda y, s: (1 - y * s) ** 2 if y * s < 1 else 0.0,
    "lr": lambda y, s: -math.log(1 / (1 + math.exp(-y * s))),
}


def test_every_loss_has_a_formula_here():
    assert set(MARGIN_LOSSES) == set(FORMULAS) == set(get_args(Loss))


@pytest.mark.parametrize("loss", FORMULAS)
@pytest.mark.parametrize("y", [-1, 1])
def test_value_is_the_formula_s(loss: Loss, y: int):
    scores = y * np.array(MARGINS)
    expected = [FORMULAS[loss](y, s) for s in scores]
    np.testing.assert_allclose(MARGIN_LOSSES[loss].value(y * scores), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("loss", FORMULAS)
def test_slope_is_that_of_finite_differences(loss: Loss):
    step = 1e-5  # the error of central differences is of the order of its square
    slopes = [(FORMULAS[loss](1, m + step) - FORMULAS[loss](1, m - step)) / (2 * step) for m in MARGINS]
    np.testing.assert_allclose(MARGIN_LOSSES[loss].slope(np.array(MARGINS)), slopes, rtol=1e-7, atol=1e-8)


def test_the_squared_hinge_has_a_slope_of_zero_where_it_bends():
    assert MARGIN_LOSSES["svm"].slope(np.array([1.0])) == 0
    assert MARGIN_LOSSES["svm"].value(np.array([1.0])) == 0


def test_the_logistic_loss_does_not_overflow():
    margins = np.array([-1e4, 1e4])
    with np.errstate(over="raise", invalid="raise"):
        np.testing.assert_array_equal(MARGIN_LOSSES["lr"].value(margins), [1e4, 0])
        np.testing.assert_array_equal(MARGIN_LOSSES["lr"].slope(margins), [-1, 0])


@pytest.mark.parametrize("loss", FORMULAS)
def test_shapes_are_kept(loss: Loss):
    margins = np.random.default_rng(0).normal(size=(4, 3))
    for function in (MARGIN_LOSSES[loss].value, MARGIN_LOSSES[loss].slope):
        together = function(margins)
        assert together.shape == (4, 3)
        assert together[2, 1] == pytest.approx(function(margins[2, 1:2])[0], rel=1e-15)
