"""Bias, ReLU and dropout in one pass over the values, and one back. The plain form is in `multidomain.nn.dropout`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from multidomain.kernels.compiled import compiled


def fused_relu_dropout(x: Tensor, bias: Tensor, bits: Tensor, dropped: int, steps: int) -> Tensor:
    """Return the ReLU of ``x + bias`` where bits, modulo `steps`, are at least `dropped`; scaled up to compensate.

    Parameters
    ----------
    x, bias
        Shapes (copies, rows, n) and (copies, 1, n).
    bits
        Random numbers of 16 bits, one for each value.
    dropped, steps
        A value is dropped with probability ``dropped / steps``; `steps` is a power of two.
    """
    return _ReluDropout.apply(x, bias, bits, dropped, steps)


class _ReluDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, bits: Tensor, dropped: int, steps: int) -> Tensor:
        out = torch.empty_like(x)
        ctx.scale = steps / (steps - dropped)
        added, random = bias.detach().numpy(), bits.view(x.shape).numpy()
        _forward(x.detach().numpy(), added, random, (dropped, steps - 1), ctx.scale, out.numpy())
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        (out,) = ctx.saved_tensors
        of_x = torch.empty_like(out)
        _backward(gradient.contiguous().numpy(), out.numpy(), ctx.scale, of_x.numpy())
        return of_x, of_x.sum(dim=1, keepdim=True), None, None, None


@compiled
def _forward(x, bias, bits, limits, scale, out):  # type: ignore[no-untyped-def]
    dropped, mask = np.int16(limits[0]), np.int16(limits[1])
    scale, zero = x.dtype.type(scale), x.dtype.type(0)
    for c in range(x.shape[0]):
        for i in range(x.shape[1]):
            x_i, bits_i, out_i, bias_c = x[c, i], bits[c, i], out[c, i], bias[c, 0]
            for j in range(x.shape[2]):
                value = x_i[j] + bias_c[j]
                kept = value * scale if np.int16(bits_i[j] & mask) >= dropped else zero
                out_i[j] = zero if kept <= 0 else kept  # not max: NaN must come through


@compiled
def _backward(gradient, out, scale, of_x):  # type: ignore[no-untyped-def]
    scale, zero = out.dtype.type(scale), out.dtype.type(0)
    gradient, out, of_x = gradient.ravel(), out.ravel(), of_x.ravel()
    for j in range(len(out)):
        of_x[j] = zero if out[j] <= 0 else gradient[j] * scale
