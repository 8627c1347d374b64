"""Gradient clipping: one norm for all that a step updates, the rows of first layers included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from multidomain.methods.adversarial.man import MAN
from multidomain.methods.divergence import Divergence

Make = Callable[..., Any]


def dense_gradients(method: MAN, names: tuple[str, ...]) -> dict[str, Tensor]:
    """Gradients of parts of the method in the last step, made dense."""
    gradients = {}
    for name, p in method.named_parameters():
        if name.split(".")[0] not in names:
            continue
        if getattr(p, "row_gradient", None) is not None:
            gradient = p.row_gradient
            dense = torch.zeros_like(p).flatten(0, -2).index_copy(0, gradient.rows, gradient.values)
            gradients[name] = dense.view_as(p)
        elif p.grad is not None:
            gradients[name] = p.grad.clone()
    return gradients


def norm(gradients: dict[str, Tensor]) -> float:
    return float(torch.cat([g.flatten() for g in gradients.values()]).norm())


def stepped(make_man: Make, make_data: Make, make_task: Make, clip_norm: float | None, steps: int = 1) -> MAN:
    task = make_task()
    method, data = make_man(task, k=1, lam=1.0), make_data(task)
    method.clip_norm = clip_norm
    X, U = data.X, data.U
    torch.manual_seed(3)
    for i in range(steps):
        method.step(X, U, 0, i)
    method.flush()
    return method


REST = ("F_s", "F_d", "C")


def test_the_norm_is_over_dense_gradients_and_rows(make_task: Make, make_man: Make, make_data: Make):
    free = dense_gradients(stepped(make_man, make_data, make_task, None), REST)
    largest = norm(free)
    rows = {name: g for name, g in free.items() if name.endswith("first_weight")}
    assert len(rows) == 2 and norm(rows) > 0.05 * largest, "they must count for the test to mean something"
    # D, which the rest reads, is clipped by a norm of its own; so low that both are.
    method = stepped(make_man, make_data, make_task, 1e-3 * largest)
    for part in (REST, ("D",)):
        assert norm(dense_gradients(method, part)) == pytest.approx(1e-3 * largest, rel=1e-4), part


def test_the_gradient_keeps_its_direction(
    make_task: Make, make_man: Make, make_data: Make, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(MAN, "_update_D", lambda *_: {})
    free = dense_gradients(stepped(make_man, make_data, make_task, None), REST)
    half = norm(free) / 2
    clipped = dense_gradients(stepped(make_man, make_data, make_task, half), REST)
    assert clipped.keys() == free.keys()
    for name, gradient in free.items():
        torch.testing.assert_close(clipped[name], gradient / 2, msg=name)


def test_a_norm_that_is_never_reached_changes_nothing(make_task: Make, make_man: Make, make_data: Make):
    a, b, c = (stepped(make_man, make_data, make_task, clip, steps=4).state_dict() for clip in (None, 1e9, 1e-2))
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert any(not torch.equal(a[name], c[name]) for name in a)


@pytest.mark.parametrize("part", ["C.out.weight", "F_d.first_weight"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_stops_the_step(
    part: str, bad: float, make_task: Make, make_man: Make, make_data: Make, monkeypatch: pytest.MonkeyPatch
):
    """Before any weight is changed by it; the error names the parameter."""
    task = make_task()
    method, data = make_man(task, adversary=None), make_data(task)
    method.clip_norm = 1.0
    backward = Tensor.backward

    def spoilt(loss: Tensor, *args: Any, **options: Any) -> None:
        backward(loss, *args, **options)
        p = dict(method.named_parameters())[part]
        (p.grad if p.grad is not None else p.row_gradient.of_output)[0, 0] = bad

    monkeypatch.setattr(Tensor, "backward", spoilt)
    before = {name: value.clone() for name, value in method.named_parameters()}
    with pytest.raises(Divergence, match=rf"the gradient of '{part}' is not finite"):
        method.step(data.X, data.U, 0, 0)
    assert all(torch.equal(before[name], value) for name, value in method.named_parameters())
