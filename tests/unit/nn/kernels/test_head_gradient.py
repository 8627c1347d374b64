"""The gradient of a head by hand, against autograd."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch

from multidomain.nn.heads import Head
from multidomain.nn.kernels.head_gradient import set_gradients
from multidomain.objectives.domain import OBJECTIVES


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("norm", ["all-domains", "per-domain", "none"])
def test_equals_autograd(norm: str, objective: str, weighted: bool):
    torch.manual_seed(0)
    J = OBJECTIVES[objective]
    head = Head(6, 3, 0.0, norm).double()  # type: ignore[arg-type]
    plain = copy.deepcopy(head)
    weight = torch.rand(3, 5, dtype=torch.float64) if weighted else None
    for _ in range(2):  # the second time over gradients that are there
        features = torch.randn(3, 5, 6, dtype=torch.float64)
        logits = set_gradients(head, features, partial(J.J_D_gradient, weight=weight))
        plain.zero_grad()
        expected = plain(features)
        J.J_D(expected, weight).backward()
    torch.testing.assert_close(logits, expected.detach(), rtol=1e-12, atol=1e-12)
    for (name, p), q in zip(head.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-9, atol=1e-12, msg=name)
        assert p.grad.abs().sum() > 0, name
    for p, q in zip(head.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-12, atol=1e-12)
