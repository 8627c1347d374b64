"""Weights that are moved."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from multidomain.nn.pages import move_to_large_pages, zeros_like


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_a_moved_parameter_is_the_same_parameter(dtype: torch.dtype):
    layer = nn.Linear(4, 3).to(dtype)
    before = layer.weight.detach().clone()
    move_to_large_pages(layer.weight)
    assert torch.equal(layer.weight, before)
    assert layer.weight.requires_grad and layer.weight is dict(layer.named_parameters())["weight"]
    layer(torch.ones(2, 4, dtype=dtype)).sum().backward()
    assert layer.weight.grad.abs().sum() > 0
    zeros = zeros_like(layer.weight)
    assert zeros.dtype == dtype and zeros.shape == (3, 4) and not zeros.any() and not zeros.requires_grad
