"""Conditional adversarial networks: what D reads, and how much a row counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from multidomain.methods.adversarial.can import CAN, CANSettings
from multidomain.methods.adversarial.man import MAN, MANSettings
from multidomain.methods.task import Task
from multidomain.objectives.domain import OBJECTIVES

Make = Callable[..., Any]
SMALL = {"hidden": (6,), "shared_size": 5, "private_size": 4, "dropout": 0.0, "lr": 0.01}


def build(task: Task, **settings: Any) -> CAN:
    torch.manual_seed(0)
    can = CAN(task, CANSettings.parse({**SMALL, **settings})).double()
    can.start_training()
    return can.train()


@pytest.fixture
def task(make_task: Make) -> Task:
    return make_task(3, labelled=(0, 2))


@pytest.mark.parametrize("conditioning", ["concat", "product"])
@pytest.mark.parametrize("draws", [1, 3])
def test_D_reads_features_and_predictions(task: Task, make_data: Make, conditioning: str, draws: int):
    can, data = build(task, conditioning=conditioning), make_data(task)
    U = data.U
    numbers = data.U.next_rows(draws)  # (draws, domains, B)
    x = U.sample(draws).x
    with torch.no_grad():
        f_s = can._f_s(x, draws * 3)
        read, weight = can.D_input(f_s, x)
    with (
        torch.no_grad(),
        can.C.frozen(),
    ):  # batch norm takes its statistics over all mini-batches that are read together
        f_d = torch.zeros(draws, 3, numbers.shape[-1], 4, dtype=torch.float64)
        for draw in range(draws):
            for own, d in enumerate(task.labelled):
                f_d[draw, d] = can.F_d(data.rows.take(numbers[draw, d]), copy=own)[0]
        p = can.C(torch.cat([f_s, f_d.flatten(0, 1)], dim=-1)).softmax(dim=-1)
    if conditioning == "concat":
        expected = torch.cat([f_s, p], dim=-1)
    else:
        expected = torch.einsum("mbf,mbk->mbfk", f_s, p).flatten(2)
    torch.testing.assert_close(read, expected)
    assert read.shape[-1] == can.D_input_size(5) == can.D.hidden.in_features
    entropy = -(p * p.log()).sum(dim=-1)
    torch.testing.assert_close(weight, 1 + torch.exp(-entropy))


def test_without_entropy_all_rows_count_alike(task: Task, make_data: Make):
    can, data = build(task, entropy=False), make_data(task)
    x = data.U.sample().x
    assert can.D_input(can._f_s(x, 3), x)[1] is None


def test_weights_are_those_of_a_weighted_mean():
    torch.manual_seed(0)
    logits, weight = torch.randn(3, 4, 3, dtype=torch.float64), torch.rand(3, 4, dtype=torch.float64) + 0.1
    twice = torch.cat([logits, logits[:, :1]], dim=1)  # the first row of each domain stands twice
    counted_twice = torch.tensor([2.0, 1, 1, 1], dtype=torch.float64).expand(3, 4)
    for objective in OBJECTIVES.values():
        for J in (objective.J_D, objective.J_Fs):
            torch.testing.assert_close(J(logits, torch.ones_like(weight)), J(logits))
            torch.testing.assert_close(J(logits, 5 * weight), J(logits, weight))
            torch.testing.assert_close(J(logits, counted_twice), J(twice))
            assert not torch.allclose(J(logits, weight), J(logits))


def test_the_adversary_teaches_neither_C_nor_private_extractors(task: Task, make_data: Make):
    """With and without the adversary, C and F_d get the same gradients; F_s does not."""
    data = make_data(task)
    gradients = []
    for lam in (0.0, 1.0):
        can = build(task, lam=lam)
        x, text = data.X.sample(), data.U.sample().x
        f_s, f_s_of_text = can._shared(x.x, text)
        loss = torch.nn.functional.cross_entropy(can.C(can._with_private(f_s, x.x)).flatten(0, 1), x.y.flatten())
        with can.D.frozen():
            read, weight = can.D_input(f_s_of_text, text)
            loss = loss + lam * can.J_Fs(can.D(read), weight)
        parameters = [can.C.out.weight, can.F_d.biases[0], can.F_s.biases[0]]
        gradients.append(torch.autograd.grad(loss, parameters))
    for without, with_adversary in zip(gradients[0][:2], gradients[1][:2], strict=True):
        torch.testing.assert_close(without, with_adversary)
    assert not torch.allclose(gradients[0][2], gradients[1][2])


def test_running_statistics_of_C_are_those_of_labelled_rows(task: Task, make_data: Make):
    """Reading text for D leaves C's batch norm alone."""
    can, data = build(task), make_data(task)
    before = can.C.norm.running_mean.clone()
    x = data.U.sample(4).x
    can.D_input(can._f_s(x, 12), x)
    torch.testing.assert_close(can.C.norm.running_mean, before)


def test_steps_are_finite_and_D_learns(task: Task, make_data: Make):
    can, data = build(task, lam=0.0), make_data(task)
    X, U = data.X, data.U
    logs = [{name: float(value) for name, value in can.step(X, U, 0, i).items()} for i in range(80)]
    late = sum(log["D_accuracy"] for log in logs[-40:]) / 40
    assert late > 0.55, "the domains differ, and chance is a third"


def test_without_conditioning_it_would_be_MAN(task: Task, make_data: Make, monkeypatch: pytest.MonkeyPatch):
    """All that CAN changes is what D reads: with the hooks of MAN it takes the very steps of MAN."""
    monkeypatch.setattr(CAN, "D_input", MAN.D_input)
    monkeypatch.setattr(CAN, "D_input_size", MAN.D_input_size)
    data = make_data(task)
    can = build(task, lam=0.05)
    torch.manual_seed(0)
    man = MAN(task, MANSettings.parse(SMALL)).double()
    man.start_training()
    man.train()
    streams = [(data.X, data.U), (data.X, data.U)]
    for i in range(3):
        for method, (X, U) in zip((can, man), streams, strict=True):
            method.step(X, U, 0, i)
    for one, other in zip(can.parameters(), man.parameters(), strict=True):
        torch.testing.assert_close(one, other)
