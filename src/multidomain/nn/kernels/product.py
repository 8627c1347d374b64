"""Matrix products in training by oneDNN, which torch brings along. The plain form is `torch.bmm`.

For single precision torch takes MKL, which on processors of other makers than its own does not use their widest
instructions: there oneDNN is twice as fast.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_LINEAR = "_linear_pointwise"  # not public: where a version of torch does not have it, its own product is taken


def product(h: Tensor, weight: Tensor) -> Tensor:
    """Return ``torch.bmm(h, weight)``."""
    is_single = h.dtype == weight.dtype == torch.float32 and h.device.type == "cpu"
    if is_single and h.numel() and torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, _LINEAR):
        return _Product.apply(h, weight)
    return torch.bmm(h, weight)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(h, weight)
        return _each(h, weight.transpose(1, 2))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        h, weight = ctx.saved_tensors
        of_h, of_weight = ctx.needs_input_grad
        return (
            _each(gradient, weight) if of_h else None,
            _each(h.transpose(1, 2), gradient.transpose(1, 2)) if of_weight else None,
        )


def _each(x: Tensor, y: Tensor) -> Tensor:
    """Return the products of matrices of one batch and the transposed ones of another."""
    linear = getattr(torch.ops.mkldnn, _LINEAR)
    products = [linear(own, other, None, "none", [], "") for own, other in zip(x, y, strict=True)]
    return torch.stack(products) if len(products) > 1 else products[0].unsqueeze(0)
