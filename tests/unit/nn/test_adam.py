"""Adam of dense weights, against torch's."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.optim import Adam

from multidomain.nn.adam import DenseAdam
from multidomain.nn.kernels.row_sum import RowGradient


def parameters() -> list[nn.Parameter]:
    torch.manual_seed(0)
    return [nn.Parameter(torch.randn(*shape)) for shape in ((40, 7), (7,), (3, 4, 5))]


def descend(optimiser: Adam, ps: list[nn.Parameter], steps: range) -> None:
    for i in steps:
        for j, p in enumerate(ps):
            generator = torch.Generator().manual_seed(10 * i + j)
            p.grad = None if j == 1 and i == 0 else torch.randn(p.shape, generator=generator)
        optimiser.step()


def test_the_same_bits_as_torch_with_fused():
    ours, theirs = parameters(), parameters()
    one, other = DenseAdam(ours, lr=0.01), Adam(theirs, lr=0.01, fused=True)
    descend(one, ours, range(12))
    descend(other, theirs, range(12))
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert one.state_dict()["state"].keys() == other.state_dict()["state"].keys()


@pytest.mark.parametrize("first", [DenseAdam, lambda ps, lr: Adam(ps, lr=lr, fused=True)])
def test_goes_on_exactly_from_a_state(first):
    """Also from one that torch's has written, as earlier versions did."""
    ps = parameters()
    optimiser = first(ps, lr=0.01)
    descend(optimiser, ps, range(5))
    qs = [nn.Parameter(p.detach().clone()) for p in ps]
    again = DenseAdam(qs, lr=0.01)
    again.load_state_dict(copy.deepcopy(optimiser.state_dict()))
    descend(optimiser, ps, range(5, 9))
    descend(again, qs, range(5, 9))
    assert all(torch.equal(p, q) for p, q in zip(ps, qs, strict=True))


def test_a_gradient_by_rows_is_a_gradient():
    (p, *_), (q, *_) = parameters(), parameters()
    gradient = torch.randn(40, 7)
    p.row_gradient, q.grad = RowGradient.of_rows(torch.arange(40), gradient.clone()), gradient
    one, other = DenseAdam([p], lr=0.01), DenseAdam([q], lr=0.01)
    one.step()
    other.step()
    torch.testing.assert_close(p, q, rtol=1e-6, atol=1e-7)
    one.zero_grad()
    assert p.row_gradient is None
