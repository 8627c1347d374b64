"""Gradient reversal."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def reverse_gradient(features: Tensor, lam: float) -> Tensor:
    """Return the features unchanged; in the backward pass their gradient is multiplied by ``-lam``."""
    return _Reversal.apply(features, lam)


class _Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, features: Tensor, lam: float) -> Tensor:
        ctx.lam = lam
        return features.view_as(features)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return -ctx.lam * gradient, None
