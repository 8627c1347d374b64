"""Products in training, against `torch.bmm`."""

from __future__ import annotations

import pytest
import torch

from multidomain.nn.kernels import product as module
from multidomain.nn.kernels.product import product


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", [(1, 17, 30, 12), (3, 20, 7, 5), (1, 0, 4, 3)])
def test_values_and_gradients(shape: tuple[int, int, int, int], dtype: torch.dtype):
    copies, rows, n, width = shape
    torch.manual_seed(0)
    h, weight = torch.randn(copies, rows, n, dtype=dtype), torch.randn(copies, n, width, dtype=dtype)
    upstream = torch.randn(copies, rows, width, dtype=dtype)
    results = []
    for function in (torch.bmm, product):
        own_h, own = h.clone().requires_grad_(), weight.clone().requires_grad_()
        out = function(own_h, own)
        (out * upstream).sum().backward()
        results.append((out.detach(), own_h.grad, own.grad))
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_a_gradient_that_nobody_wants_is_not_computed():
    h, weight = torch.randn(1, 20, 5), torch.randn(1, 5, 3, requires_grad=True)
    product(h, weight).sum().backward()
    torch.testing.assert_close(weight.grad[0], h[0].sum(dim=0)[:, None].expand(5, 3))
    assert h.grad is None


def test_does_without_what_torch_does_not_have(monkeypatch):
    monkeypatch.setattr(module, "_LINEAR", "no_such_function")
    h, weight = torch.randn(1, 20, 5), torch.randn(1, 5, 3)
    assert torch.equal(product(h, weight), torch.bmm(h, weight))
