"""Each objective against a loop written straight from its formula, in float64."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from multidomain.objectives.domain import L2, NLL, OBJECTIVES, DomainObjective


def logits_of(N: int, B: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 3 * torch.randn(N, B, N, generator=generator, dtype=torch.float64)


def naive_softmax(scores: list[float]) -> list[float]:
    total = sum(math.exp(s) for s in scores)
    return [math.exp(s) / total for s in scores]


def naive(name: str, role: str, logits: Tensor) -> float:
    N, B = logits.shape[0], logits.shape[1]
    total = 0.0
    for d in range(N):
        of_domain = 0.0
        for b in range(B):
            D = naive_softmax(logits[d, b].tolist())
            if name == "nll":
                of_domain += -math.log(D[d]) if role == "J_D" else math.log(D[d])
            else:
                for j in range(N):
                    target = float(j == d) if role == "J_D" else 1 / N
                    of_domain += (D[j] - target) ** 2
        total += of_domain / B
    return total


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("role", ["J_D", "J_Fs"])
@pytest.mark.parametrize(("N", "B"), [(2, 1), (3, 4), (6, 8)])
def test_objective_equals_a_naive_loop(name: str, role: str, N: int, B: int) -> None:
    logits = logits_of(N, B)
    value = getattr(OBJECTIVES[name], role)(logits)
    assert value.shape == ()
    assert value.item() == pytest.approx(naive(name, role, logits), rel=1e-12)


def test_F_s_of_nll_gets_exactly_the_opposite_gradient_of_D() -> None:
    logits = logits_of(4, 8).requires_grad_()
    (of_D,) = torch.autograd.grad(NLL.J_D(logits), logits)
    (of_F_s,) = torch.autograd.grad(NLL.J_Fs(logits), logits)
    assert torch.equal(of_F_s, -of_D)
    assert of_D.abs().sum() > 0


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=lambda o: o.name)
@pytest.mark.parametrize("role", ["J_D", "J_Fs"])
def test_gradient_is_that_of_finite_differences(objective: DomainObjective, role: str) -> None:
    assert torch.autograd.gradcheck(getattr(objective, role), logits_of(3, 2).requires_grad_())


def test_descending_J_Fs_of_l2_brings_D_towards_uniform() -> None:
    logits = logits_of(3, 4).requires_grad_()
    (gradient,) = torch.autograd.grad(L2.J_Fs(logits), logits)
    entropy_before = torch.distributions.Categorical(logits=logits).entropy().mean()
    entropy_after = torch.distributions.Categorical(logits=logits - gradient).entropy().mean()
    assert entropy_after > entropy_before


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=lambda o: o.name)
def test_repeating_the_batch_does_not_change_the_loss(objective: DomainObjective) -> None:
    logits = logits_of(3, 4)
    for J in (objective.J_D, objective.J_Fs):
        assert J(logits.repeat(1, 5, 1)).item() == pytest.approx(J(logits).item(), rel=1e-12)


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=lambda o: o.name)
def test_extreme_logits_stay_finite(objective: DomainObjective) -> None:
    right = (1e4 * torch.eye(3))[:, None, :].requires_grad_()
    wrong = (1e4 * torch.eye(3).roll(1, dims=0))[:, None, :].requires_grad_()
    for logits in (right, wrong):
        for J in (objective.J_D, objective.J_Fs):
            value = J(logits)
            (gradient,) = torch.autograd.grad(value, logits)
            assert torch.isfinite(value) and torch.isfinite(gradient).all()
    assert objective.J_D(right).item() == 0.0
    assert objective.J_D(wrong).item() == pytest.approx(3e4 if objective is NLL else 6.0)


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=lambda o: o.name)
def test_one_domain_gives_zero_loss_and_zero_gradients(objective: DomainObjective) -> None:
    logits = torch.tensor([[[2.0], [-7.0]]], requires_grad=True)
    for J in (objective.J_D, objective.J_Fs):
        value = J(logits)
        (gradient,) = torch.autograd.grad(value, logits)
        assert value.item() == 0.0
        assert torch.equal(gradient, torch.zeros_like(logits))


@pytest.mark.parametrize("shape", [(3, 3), (2, 8, 3), (3, 0, 3), (1, 2, 3, 2)])
@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=lambda o: o.name)
def test_wrong_shape_is_refused(objective: DomainObjective, shape: tuple[int, ...]) -> None:
    for J in (objective.J_D, objective.J_Fs):
        with pytest.raises(ValueError, match=r"Expected logits of D of shape \(N, B, N\).*got shape"):
            J(torch.zeros(shape))


def test_registry_names() -> None:
    assert {"nll": NLL, "l2": L2} == OBJECTIVES
    assert [objective.name for objective in OBJECTIVES.values()] == list(OBJECTIVES)
