"""The gradients of a step: their norm, and clipping."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def gradient_of(p: Tensor) -> Tensor | None:
    """Return the gradient of a parameter, or that of the rows which have one (see `RowGradient`)."""
    by_row = getattr(p, "row_gradient", None)
    return p.grad if by_row is None else by_row.values


def clip_dense(parameters: Sequence[Tensor], clip_norm: float) -> None:
    """Do what `clip_gradients` does with dense gradients, on their device: nobody waits for the norm."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    if gradients:
        norm = torch.stack([torch.linalg.vector_norm(g) for g in gradients]).norm()
        scale = torch.where(norm.isfinite(), clip_norm / norm.clamp(min=clip_norm), torch.ones_like(norm))
        for gradient in gradients:
            gradient.mul_(scale)


def clip_gradients(parameters: Sequence[Tensor], clip_norm: float) -> float:
    """Scale all gradients down together so that their norm is at most `clip_norm`, and return what it was.

    Rows of a table without a gradient of their own add nothing to the norm. If it is not finite, nothing is scaled.
    """
    gradients = [g for g in map(gradient_of, parameters) if g is not None]
    if not gradients:
        return 0.0
    norm = float(torch.stack([torch.linalg.vector_norm(g) for g in gradients]).norm())
    if clip_norm < norm < float("inf"):
        for p in parameters:
            by_row = getattr(p, "row_gradient", None)
            scaled = p.grad if by_row is None else by_row.of_output
            if scaled is not None:
                scaled.mul_(clip_norm / norm)
    return norm
