"""What the paper proves, met numerically: D is taken to its optimum by an optimiser, not by the formula.

The shared features are discrete here: domain d is a distribution over K cells, and D is a free table of
logits, one row for each cell. The expectation over P_d, which training estimates by the mean of a mini-batch,
is exact when the mini-batch holds each cell as often as P_d says, so the distributions are fractions of
`BATCH`.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from torch import Tensor

from multidomain.objectives.divergence import (
    jensen_shannon,
    jsd_from_cross_entropy,
    l2_optimum,
    neyman_chi_square,
    nll_optimum,
    optimal_discriminator,
)
from multidomain.objectives.domain import NLL, OBJECTIVES, DomainObjective

BATCH = 60
CELLS = 5


def random_cells(N: int, seed: int) -> Tensor:
    """Return the cell of each instance, shape (N, BATCH), every cell visited by every domain."""
    generator = np.random.default_rng(seed)
    cells = [
        np.repeat(np.arange(CELLS), 1 + generator.multinomial(BATCH - CELLS, generator.dirichlet(np.ones(CELLS))))
        for _ in range(N)
    ]
    return torch.tensor(np.stack(cells))


def distributions(cells: Tensor) -> np.ndarray:
    return np.stack([np.bincount(row, minlength=CELLS) / BATCH for row in cells.numpy()])


def optimise_D(objective: DomainObjective, cells: Tensor) -> Tensor:
    """Return the table of logits, shape (CELLS, N), that minimises J_D."""
    # Not from zeros, where D is uniform and already optimal for identical domains.
    start = torch.randn(CELLS, len(cells), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    table = start.requires_grad_()
    optimiser = torch.optim.LBFGS(
        [table], max_iter=2000, tolerance_grad=1e-11, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = objective.J_D(table[cells])
        loss.backward()
        return loss

    optimiser.step(closure)
    return table.detach()


CLOSED_FORM = {"nll": nll_optimum, "l2": l2_optimum}
every_objective = pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=lambda o: o.name)


@every_objective
@pytest.mark.parametrize("N", range(2, 7))
@pytest.mark.parametrize("seed", range(3))
def test_theorems_hold_at_the_optimum_of_D(objective: DomainObjective, N: int, seed: int) -> None:
    cells = random_cells(N, seed)
    P = distributions(cells)
    table = optimise_D(objective, cells)
    # Lemmas 1 and 2: which D is optimal.
    assert table.softmax(dim=-1).numpy() == pytest.approx(optimal_discriminator(P), abs=1e-6)
    # Theorems 1 and 2: what F_s then minimises.
    assert objective.J_Fs(table[cells]).item() == pytest.approx(CLOSED_FORM[objective.name](P), abs=1e-6)


@every_objective
@pytest.mark.parametrize("N", range(2, 7))
def test_corollary_identical_domains_reach_the_least_value(objective: DomainObjective, N: int) -> None:
    least = {"nll": -N * math.log(N), "l2": 0.0}[objective.name]
    one = random_cells(1, seed=N)
    same = one.expand(N, BATCH)
    assert objective.J_Fs(optimise_D(objective, same)[same]).item() == pytest.approx(least, abs=1e-9)
    # "Only if": domains that differ in as little as one instance lie above it.
    different = same.clone()
    different[0, 0] = (different[0, 0] + 1) % CELLS
    assert objective.J_Fs(optimise_D(objective, different)[different]).item() > least + 1e-6


@pytest.mark.parametrize("N", range(2, 7))
def test_cross_entropy_of_the_optimal_D_measures_the_divergence(N: int) -> None:
    cells = random_cells(N, seed=10 + N)
    at_optimum = NLL.J_D(optimise_D(NLL, cells)[cells]).item() / N
    P = distributions(cells)
    assert jsd_from_cross_entropy(at_optimum, N) == pytest.approx(jensen_shannon(P), abs=1e-6)
    # From below: no other D reports more than the divergence.
    generator = torch.Generator().manual_seed(N)
    for _ in range(20):
        table = torch.randn(CELLS, N, dtype=torch.float64, generator=generator)
        assert jsd_from_cross_entropy(NLL.J_D(table[cells]).item() / N, N) <= jensen_shannon(P)


@every_objective
@given(data=st.data(), N=st.integers(2, 6), B=st.integers(1, 5), seed=st.integers(0, 2**31))
@settings(max_examples=30, deadline=None)
def test_order_of_domains_does_not_change_the_loss(
    objective: DomainObjective, data: st.DataObject, N: int, B: int, seed: int
) -> None:
    logits = torch.randn(N, B, N, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    order = torch.tensor(data.draw(st.permutations(range(N))))
    reordered = logits[order][:, :, order]  # D's outputs are renamed as the domains are
    for J in (objective.J_D, objective.J_Fs):
        assert J(reordered).item() == pytest.approx(J(logits).item(), rel=1e-12)


@st.composite
def sets_of_distributions(draw: st.DrawFn, least: int = 2, most: int = 6) -> np.ndarray:
    n = draw(st.integers(least, most))
    k = draw(st.integers(1, 8))
    counts = st.lists(st.integers(0, 20), min_size=k, max_size=k).filter(any)
    weights = np.array([draw(counts) for _ in range(n)], dtype=float)
    return weights / weights.sum(axis=1, keepdims=True)


@given(P=sets_of_distributions())
def test_jsd_lies_between_0_and_log_N(P: np.ndarray) -> None:
    assert 0 <= jensen_shannon(P) <= math.log(len(P)) + 1e-12


@pytest.mark.parametrize("N", range(2, 7))
def test_jsd_and_chi_square_attain_both_ends(N: int) -> None:
    separate = np.eye(N)
    same = np.full((N, N), 1 / N)
    assert jensen_shannon(separate) == pytest.approx(math.log(N), rel=1e-12)
    assert jensen_shannon(same) == pytest.approx(0, abs=1e-12)
    assert neyman_chi_square(separate) == pytest.approx(np.full(N, N - 1))
    assert neyman_chi_square(same) == pytest.approx(np.zeros(N), abs=1e-12)


@given(P=sets_of_distributions())
def test_chi_square_lies_between_0_and_N_minus_1(P: np.ndarray) -> None:
    chi_square = neyman_chi_square(P)
    assert (chi_square >= 0).all() and (chi_square <= len(P) - 1 + 1e-9).all()


@given(P=sets_of_distributions())
def test_divergences_do_not_depend_on_the_order_of_domains(P: np.ndarray) -> None:
    assert nll_optimum(P[::-1]) == pytest.approx(nll_optimum(P), abs=1e-12)
    assert l2_optimum(P[::-1]) == pytest.approx(l2_optimum(P), abs=1e-12)


@given(P=sets_of_distributions(most=2))
def test_jsd_of_two_equals_scipy(P: np.ndarray) -> None:
    # scipy returns the root of the divergence, and nan where rounding made that -1e-17.
    expected = np.nan_to_num(jensenshannon(P[0], P[1])) ** 2
    assert jensen_shannon(P) == pytest.approx(expected, abs=1e-9)


@given(P=sets_of_distributions())
def test_closed_forms_equal_the_objectives_of_the_optimal_D(P: np.ndarray) -> None:
    """The expectations written out, for distributions with empty cells too."""
    D = optimal_discriminator(P)  # (K, N)
    N = len(P)
    nll = sum(P[d, x] * math.log(D[x, d]) for d in range(N) for x in range(P.shape[1]) if P[d, x] > 0)
    l2 = sum(P[d, x] * ((D[x] - 1 / N) ** 2).sum() for d in range(N) for x in range(P.shape[1]))
    assert nll_optimum(P) == pytest.approx(nll, abs=1e-9)
    assert l2_optimum(P) == pytest.approx(l2, abs=1e-9)
