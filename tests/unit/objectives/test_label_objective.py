"""J_C, against a naive loop, with weights of rows and without."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from multidomain.objectives.label import J_C, J_C_of_domain


def batch(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Logits of 3 domains, 5 rows and 4 classes, with labels and weights."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(3, 5, 4, generator=generator, dtype=torch.float64)
    y = torch.randint(0, 4, (3, 5), generator=generator)
    return logits, y, 0.1 + torch.rand(3, 5, generator=generator, dtype=torch.float64)


def naive(logits: Tensor, y: Tensor, weight: Tensor) -> list[float]:
    """The weighted mean of -log p of the label, for each domain."""
    means = []
    for of_domain, labels, weights in zip(logits.tolist(), y.tolist(), weight.tolist(), strict=True):
        total = 0.0
        for row, label, w in zip(of_domain, labels, weights, strict=True):
            total -= w * (row[label] - math.log(sum(math.exp(value) for value in row)))
        means.append(total / sum(weights))
    return means


@pytest.mark.parametrize("seed", range(5))
def test_it_equals_a_naive_loop(seed: int):
    logits, y, weight = batch(seed)
    for given, counted in ((weight, weight), (None, torch.ones(3, 5))):
        expected = naive(logits, y, counted)
        assert J_C_of_domain(logits, y, given).tolist() == pytest.approx(expected)
        assert float(J_C(logits, y, given)) == pytest.approx(sum(expected))


def test_a_weight_of_2_is_a_row_counted_twice():
    logits, y, _ = batch()
    weight = torch.ones(3, 5, dtype=torch.float64)
    weight[:, 1] = 2
    twice = [0, 1, 1, 2, 3, 4]
    torch.testing.assert_close(J_C_of_domain(logits, y, weight), J_C_of_domain(logits[:, twice], y[:, twice]))


def test_the_scale_of_a_domain_s_weights_has_no_effect():
    """Decision 2: `lam` keeps its meaning."""
    logits, y, weight = batch()
    scale = torch.tensor([[1e-3], [1.0], [1e3]], dtype=torch.float64)
    torch.testing.assert_close(J_C_of_domain(logits, y, weight * scale), J_C_of_domain(logits, y, weight))
