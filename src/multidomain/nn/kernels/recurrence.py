"""LSTM over several networks at once, with a custom backward pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def lstm_states(x: Tensor, widths: Sequence[int], W: Tensor, U: Tensor, b: Tensor) -> Tensor:
    r"""Return the states of `K` networks after each word of their documents, shape (K, sum of widths, size).

    .. math::
        i, f, o = \sigma(\cdot), \quad g = \tanh(\cdot) \quad \text{of} \quad x_t W + h_{t-1} U + b, \qquad
        c_t = f c_{t-1} + i g, \qquad h_t = o \tanh c_t

    Words are ordered by step: `widths[t]` documents of each network, the longest first, have a word at step `t`, so
    widths never increase. A network may have fewer documents left; values computed at the spare positions must not be
    read, and their gradient is zero.

    Parameters
    ----------
    x
        Shape (K, sum of widths, inputs).
    widths
        Number of documents per network that have a word at each step.
    W, U, b
        Shapes (K, inputs, 4 * size), (K, size, 4 * size) and (K, 1, 4 * size); gates in the order i, f, g, o.
    """
    if torch.is_grad_enabled():
        return _LSTM.apply(x, widths, W, U, b)
    h = x.new_empty(*x.shape[:2], U.shape[1])
    c = h[:, :0]
    for here, before in _steps(widths):
        gates = torch.baddbmm(b, x[:, here], W)
        if before is not None:
            gates.baddbmm_(h[:, before], U)
        c = _cell(gates, None if before is None else c[:, : gates.shape[1]])
        torch.mul(gates[..., 3 * U.shape[1] :], c.tanh(), out=h[:, here])
    return h


def _cell(gates: Tensor, c_before: Tensor | None) -> Tensor:
    """Turn products into gates, in place, and return the cell state."""
    size = gates.shape[-1] // 4
    gates[..., : 2 * size].sigmoid_()
    gates[..., 2 * size : 3 * size].tanh_()
    gates[..., 3 * size :].sigmoid_()
    i, f, g, _ = gates.chunk(4, dim=-1)
    return i * g if c_before is None else (i * g).addcmul_(f, c_before)


class _LSTM(torch.autograd.Function):
    """The same, with a backward pass.

    Autograd would record some fifteen operations per step and allocate a gradient as large as the whole batch for
    each. Here the backward loop only does what depends on the following step; the rest is one product over all words
    (decision 21).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, widths: Sequence[int], W: Tensor, U: Tensor, b: Tensor) -> Tensor:
        gates = torch.baddbmm(b, x, W)  # (K, words, 4 * size)
        c = x.new_empty(*x.shape[:2], U.shape[1])
        tanh_c, h = torch.empty_like(c), torch.empty_like(c)
        for here, before in _steps(widths):
            if before is not None:
                gates[:, here].baddbmm_(h[:, before], U)
            c[:, here] = _cell(gates[:, here], None if before is None else c[:, before])
            torch.tanh(c[:, here], out=tanh_c[:, here])
            torch.mul(gates[:, here, 3 * U.shape[1] :], tanh_c[:, here], out=h[:, here])
        ctx.widths = widths
        ctx.save_for_backward(x, W, U, gates, c, tanh_c, h)
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_h: Tensor) -> tuple[Tensor | None, ...]:
        with _denormals_as_zero() if grad_h.device.type == "cpu" else nullcontext():
            return _gradients(ctx, grad_h)


def _gradients(ctx: Any, grad_h: Tensor) -> tuple[Tensor | None, ...]:
    x, W, U, gates, c, tanh_c, h = ctx.saved_tensors
    first = ctx.widths[0]  # words without a previous state
    before = torch.cat([torch.arange(s.start, s.stop) for _, s in _steps(ctx.widths) if s] or [torch.arange(0)])
    before = before.to(x.device)
    i, f, g, o = gates.chunk(4, dim=-1)

    # Derivatives of c with respect to the inputs of i, f and g, of h with respect to that of o, and of h with
    # respect to c.
    slopes = torch.empty_like(gates)
    to_c, to_h = slopes[..., : 3 * U.shape[1]].unflatten(-1, (3, -1)), slopes[..., 3 * U.shape[1] :]
    torch.mul(g * i, 1 - i, out=to_c[..., 0, :])
    torch.mul(f, 1 - f, out=to_c[..., 1, :])
    to_c[:, :first, 1] = 0
    to_c[:, first:, 1] *= c.index_select(1, before)
    torch.mul(i, 1 - g * g, out=to_c[..., 2, :])
    torch.mul(o * tanh_c, 1 - o, out=to_h)
    c_to_h = o * (1 - tanh_c * tanh_c)

    grad_h, grad_c = grad_h.clone(), torch.zeros_like(c)
    U_back = U.transpose(1, 2)
    for here, before_here in reversed(_steps(ctx.widths)):
        grad_c[:, here].addcmul_(grad_h[:, here], c_to_h[:, here])
        to_c[:, here] *= grad_c[:, here].unsqueeze(2)
        to_h[:, here] *= grad_h[:, here]
        if before_here is not None:
            grad_h[:, before_here].baddbmm_(slopes[:, here], U_back)
            grad_c[:, before_here].addcmul_(grad_c[:, here], f[:, here])
    products = slopes  # now the gradients of the products
    return (
        products @ W.transpose(1, 2) if ctx.needs_input_grad[0] else None,
        None,
        x.transpose(1, 2) @ products,
        h.index_select(1, before).transpose(1, 2) @ products[:, first:],
        products.sum(dim=1, keepdim=True),
    )


@contextmanager
def _denormals_as_zero() -> Iterator[None]:
    """Flush denormals to zero: processors are a hundred times slower with them.

    Gradients decay from step to step, so those of early words are full of denormals.
    """
    already = bool(torch.tensor(1e-38) * 1e-2 == 0)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(already)


def _steps(widths: Sequence[int]) -> list[tuple[slice, slice | None]]:
    """Return the slice of the words of each step, and that of the words before them, if any."""
    starts = [0, *accumulate(widths)]
    steps: list[tuple[slice, slice | None]] = [(slice(0, widths[0]), None)]
    for t in range(1, len(widths)):
        steps.append((slice(starts[t], starts[t + 1]), slice(starts[t - 1], starts[t - 1] + widths[t])))
    return steps
