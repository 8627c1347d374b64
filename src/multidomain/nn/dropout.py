"""Dropout with cheap random numbers."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from multidomain.nn import kernels

_STEPS = 1 << 15  # the probability is rounded to a multiple of 1 / 32768


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Drop each value with probability `p` and scale up the others to compensate.

    torch's own draws a number of 32 bits for each value, one at a time on the CPU; here one serves for two values.
    Elsewhere it is torch's own.
    """
    dropped = min(round(p * _STEPS), _STEPS - 1)
    if not training or not dropped:
        return x
    if not kernels.run_on(x.device):
        return functional.dropout(x, p)
    kept = (_random_bits(x) & (_STEPS - 1)).view(x.shape) >= dropped
    return x * kept.to(x.dtype).mul_(_STEPS / (_STEPS - dropped))


def relu_dropout(x: Tensor, bias: Tensor, p: float, training: bool) -> Tensor:
    """Return ``dropout((x + bias).relu(), p, training)``, for shapes (copies, rows, n) and (copies, 1, n)."""
    dropped = min(round(p * _STEPS), _STEPS - 1)
    if not training or not dropped or not kernels.run_on(x.device):
        return dropout((x + bias).relu(), p, training)
    from multidomain.nn.kernels.relu_dropout import fused_relu_dropout  # here: prediction must not load the compiler

    return fused_relu_dropout(x, bias, _random_bits(x), dropped, _STEPS)


def _random_bits(x: Tensor) -> Tensor:
    """Return 16 random bits for each value."""
    pairs = torch.empty((x.numel() + 1) // 2, dtype=torch.int32, device=x.device)
    return pairs.random_().view(torch.int16)[: x.numel()]
