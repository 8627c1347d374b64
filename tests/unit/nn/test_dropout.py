"""Dropout with half the random numbers."""

from __future__ import annotations

import pytest
import torch

from multidomain.nn.dropout import dropout, relu_dropout


@pytest.mark.parametrize("p", [0.1, 0.4, 0.9])
@pytest.mark.parametrize("shape", [(1001, 333), (1, 77, 2000)])
def test_share_and_mean(p: float, shape: tuple[int, ...]):
    torch.manual_seed(0)
    kept = dropout(torch.ones(shape), p, training=True)
    assert (kept == 0).double().mean().item() == pytest.approx(p, abs=0.003)
    assert kept.mean().item() == pytest.approx(1, abs=0.02)
    assert len(kept.unique()) == 2


def test_neighbours_are_independent():
    """Two values come from one random number."""
    torch.manual_seed(1)
    kept = dropout(torch.ones(400_000), 0.4, training=True) > 0
    both = (kept[::2] & kept[1::2]).double().mean().item()
    assert both == pytest.approx(0.36, abs=0.005)


def test_off():
    x = torch.randn(5, 5)
    assert dropout(x, 0.4, training=False) is x
    assert dropout(x, 0.0, training=True) is x


def test_gradient_passes_what_was_kept():
    x = torch.ones(1000, requires_grad=True)
    torch.manual_seed(2)
    y = dropout(x, 0.4, training=True)
    y.sum().backward()
    torch.testing.assert_close(x.grad, y.detach())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("p", [0.0, 0.4])
@pytest.mark.parametrize("training", [False, True])
def test_with_bias_and_relu_in_one_pass_the_same_bits(p: float, training: bool, dtype: torch.dtype):
    torch.manual_seed(0)
    x, bias, upstream = (torch.randn(2, n, 7, dtype=dtype) for n in (5, 1, 5))
    results = []
    for function in (relu_dropout, lambda h, b, *how: dropout((h + b).relu(), *how)):
        own = [x.clone().requires_grad_(), bias.clone().requires_grad_()]
        torch.manual_seed(1)
        out = function(*own, p, training)
        out.backward(upstream)
        results.append((out, own[0].grad))
        torch.testing.assert_close(own[1].grad, own[0].grad.sum(dim=1, keepdim=True))
    assert all(torch.equal(found, expected) for found, expected in zip(*results, strict=True))
    assert 0 < (results[0][0] == 0).double().mean() < 1


def test_what_is_not_finite_stays_so():
    x = torch.full((1, 1000, 1), float("nan"))
    assert relu_dropout(x, torch.zeros(1, 1, 1), 0.4, training=True).isnan().any()
