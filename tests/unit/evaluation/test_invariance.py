"""The meter of invariance, on distributions whose Jensen-Shannon divergence is known."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm

from multidomain.errors import TrainingError
from multidomain.evaluation import probe
from multidomain.evaluation.invariance import Invariance, measure_invariance

pytestmark = pytest.mark.usefixtures("whole_meter")


def gaussians(means: list[float], rows: int, size: int = 16, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Unit Gaussians whose centres lie on a line, at these places; every coordinate has a share in it.

    A rotation does not change the divergence, so it is that of the Gaussians on the line.
    """
    d = np.repeat(np.arange(len(means)), rows)
    x = np.random.default_rng(seed).normal(size=(len(d), size))
    return x + np.array(means)[d][:, None] / math.sqrt(size), d


def integrated_jsd(means: list[float]) -> float:
    """The mean over domains of KL(P_d || mean of P), by numerical integration."""

    def mixture(x: float) -> float:
        return float(np.mean([norm.pdf(x, m) for m in means]))

    terms = []
    for m in means:
        terms.append(quad(lambda x, m=m: norm.pdf(x, m) * math.log(norm.pdf(x, m) / mixture(x)), m - 8, m + 8)[0])
    return float(np.mean(terms))


@pytest.mark.parametrize("N", [2, 4])
def test_identical_distributions_give_nothing(N: int):
    x, d = gaussians([0.0] * N, rows=800)
    result = measure_invariance(x, d, N)
    assert result.nats == pytest.approx(0, abs=0.01)
    assert result.accuracy == pytest.approx(1 / N, abs=0.05)
    assert (result.chance, result.most) == (1 / N, pytest.approx(math.log(N)))


@pytest.fixture
def a_third_of_the_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is told after a third of them is told after all: only a better probe takes the place of the best."""
    monkeypatch.setattr(probe, "_MAX_UPDATES", probe._MAX_UPDATES // 3)


@pytest.mark.usefixtures("a_third_of_the_updates")
def test_separate_distributions_give_all():
    N = 4
    x, d = gaussians([20.0 * i for i in range(N)], rows=400, size=64)
    result = measure_invariance(x, d, N)
    assert result.nats == pytest.approx(math.log(N), abs=0.1)
    assert result.nats <= math.log(N)
    assert result.accuracy > 0.99


@pytest.mark.usefixtures("a_third_of_the_updates")
def test_one_coordinate_that_tells_the_domains_apart_is_enough():
    """However many others tell nothing: an adversary must not hide the domain in a corner."""
    N = 4
    x, d = gaussians([0.0] * N, rows=300)
    x[:, 0] += 20 * d
    result = measure_invariance(x, d, N)
    assert result.nats == pytest.approx(math.log(N), abs=0.1)
    assert result.accuracy > 0.99


@pytest.mark.parametrize("means", [[0.0, 1.0], [0.0, 2.0], [0.0, 1.5, 3.0]])
def test_overlapping_gaussians_are_measured_from_below(means: list[float]):
    exact = integrated_jsd(means)
    x, d = gaussians(means, rows=1500)
    result = measure_invariance(x, d, len(means))
    # 750 rows of each score it, so the estimate itself is uncertain by some 0.015.
    assert exact - 0.07 < result.nats < exact + 0.03
    place = x.sum(axis=1) / math.sqrt(x.shape[1])
    likeliest = np.abs(place[:, None] - np.array(means)).argmin(axis=1)
    assert result.accuracy == pytest.approx((likeliest == d).mean(), abs=0.04)


def test_the_integral_is_right():
    """Against a plain sum, so that the test above does not lean on a slip."""
    grid = np.linspace(-10, 12, 200_001)
    p = norm.pdf(grid[None], np.array([[0.0], [2.0]]))
    sums = (p * np.log(p / p.mean(axis=0))).sum(axis=1) * (grid[1] - grid[0])
    assert integrated_jsd([0.0, 2.0]) == pytest.approx(sums.mean(), abs=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_never_negative(seed: int):
    """Few rows and many coordinates: the probe can only learn by heart."""
    x, d = gaussians([0.0, 0.0, 0.0], rows=16, size=50, seed=seed)
    assert measure_invariance(x, d, 3, seed=seed).nats >= 0


def test_domains_count_the_same_whatever_their_size():
    """One domain has ten times the rows: a probe that always names it would be right in 10 of 11."""
    random = np.random.default_rng(0)
    d = np.repeat([0, 1], [2000, 200])
    result = measure_invariance(random.normal(size=(2200, 4)), d, 2)
    assert result.nats == pytest.approx(0, abs=0.02)
    assert result.accuracy == pytest.approx(0.5, abs=0.08)


def test_the_seed_decides_and_the_random_state_is_left_alone():
    x, d = gaussians([0.0, 1.0], rows=40)
    torch.manual_seed(5)
    state = torch.get_rng_state()
    a = measure_invariance(x, d, 2, seed=3)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(99)
    np.random.seed(99)  # noqa: NPY002
    assert measure_invariance(x, d, 2, seed=3) == a
    assert measure_invariance(x, d, 2, seed=4) != a


def test_the_order_of_rows_of_different_domains_does_not_matter():
    x, d = gaussians([0.0, 1.0], rows=40)
    mixed = np.arange(80).reshape(2, 40).T.reshape(-1)  # a, b, a, b, ...: the order within a domain stays
    assert measure_invariance(x[mixed], d[mixed], 2) == measure_invariance(x, d, 2)


def test_half_of_the_rows_score():
    x, d = gaussians([0.0, 1.0, 2.0], rows=101)
    assert measure_invariance(x, d, 3).rows == 3 * 51


@pytest.mark.parametrize(
    ("rows", "N"),
    [pytest.param([100], 1, id="one domain"), pytest.param([100, 7], 2, id="too few rows"), ([20, 0], 2)],
)
def test_none_where_nothing_can_be_measured(rows: list[int], N: int):
    d = np.repeat(np.arange(N), rows)
    assert measure_invariance(np.ones((len(d), 3)), d, N) is None


def test_eight_rows_are_enough():
    d = np.repeat([0, 1], 8)
    result = measure_invariance(np.random.default_rng(0).normal(size=(16, 3)), d, 2)
    assert isinstance(result, Invariance) and result.rows == 8


def test_features_that_are_all_zero_tell_nothing():
    """Extractors end in ReLU and can die."""
    d = np.repeat([0, 1], 50)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = measure_invariance(np.zeros((100, 3)), d, 2)
    assert result.nats == pytest.approx(0, abs=1e-3)
    assert result.accuracy == 0.5


def test_features_that_are_no_numbers_are_not_called_invariant():
    """A network that diverged has NaN features: 0 nats would be the best mark there is."""
    d = np.repeat([0, 1], 50)
    with pytest.raises(TrainingError, match=r"not finite: training has diverged\. Lower the learning rate \(lr="):
        measure_invariance(np.full((100, 3), np.nan), d, 2)
