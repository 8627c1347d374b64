"""Products with few rows, against `torch.bmm` and dense Adam."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from multidomain.nn.adam import DenseAdam
from multidomain.nn.kernels.few_rows import bmm_after_relu


@pytest.mark.parametrize("shape", [(1, 1, 5, 3), (3, 4, 7, 5), (2, 8, 40, 33)])
def test_values_gradients_and_step(shape: tuple[int, int, int, int]):
    copies, rows, n, width = shape
    torch.manual_seed(0)
    x = torch.randn(copies, rows, n, dtype=torch.float64)
    weight = nn.Parameter(torch.randn(copies, n, width, dtype=torch.float64))
    upstream = torch.randn(copies, rows, width, dtype=torch.float64)
    results = []
    for product in (torch.bmm, bmm_after_relu):
        own_x, own = x.clone().requires_grad_(), copy.deepcopy(weight)
        optimiser = DenseAdam([own], lr=0.1)
        for _ in range(3):
            optimiser.zero_grad()
            out = product(own_x.relu(), own)
            (out * upstream).sum().backward()
            optimiser.step()
        results.append((out.detach(), own_x.grad, own.detach()))
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    assert own.grad is None and len(own.row_gradient.rows) == copies * n
