"""Dropout with cheap random numbers."""

from __future__ import annotations

import torch
from torch import Tensor

_STEPS = 1 << 15  # the probability is rounded to a multiple of 1 / 32768


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Drop each value with probability `p` and scale up the others to compensate.

    torch's own draws a number of 32 bits for each value, one at a time on the CPU; here one serves for two values.
    """
    dropped = min(round(p * _STEPS), _STEPS - 1)
    if not training or not dropped:
        return x
    bits = torch.empty((x.numel() + 1) // 2, dtype=torch.int32, device=x.device).random_().view(torch.int16)
    kept = (bits[: x.numel()] & (_STEPS - 1)).view(x.shape) >= dropped
    return x * kept.to(x.dtype).mul_(_STEPS / (_STEPS - dropped))
