"""The gradient of a head by hand: D is small and updated k times, and autograd takes longer than its update."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from multidomain.nn import kernels
from multidomain.nn.collectives import in_shared_step
from multidomain.nn.heads import Head
from multidomain.nn.norm import DomainBatchNorm

_EPS = 1e-5  # of torch's batch norm


@torch.no_grad()
def set_gradients(head: Head, features: Tensor, gradient_of_logits: Callable[[Tensor], Tensor]) -> Tensor:
    """Set the gradients of all parameters of a head in training, of a loss of its logits, and return the logits.

    Parameters
    ----------
    features
        After dropout, shape (domains, rows of each, features).
    gradient_of_logits
        Maps the logits to the gradient of the loss with respect to them.
    """
    norm = head.norm
    by_hand = kernels.run_on(features.device) and not in_shared_step()
    if not by_hand or (isinstance(norm, DomainBatchNorm) and norm.over == "per-domain"):
        return _by_autograd(head, features, gradient_of_logits)
    x = features.flatten(0, 1)
    z = functional.linear(x, head.hidden.weight, head.hidden.bias)
    h, statistics = z, list[Tensor]()
    if isinstance(norm, DomainBatchNorm):
        running = (norm.running_mean, norm.running_var)
        h, *statistics = torch.native_batch_norm(z, norm.weight, norm.bias, *running, True, norm.momentum, _EPS)
    h = h.relu()
    logits = head.out(h)
    d_logits = gradient_of_logits(logits.unflatten(0, features.shape[:2])).flatten(0, 1)
    head.out.weight.grad, head.out.bias.grad = d_logits.T @ h, d_logits.sum(dim=0)
    d_z = torch.ops.aten.threshold_backward(d_logits @ head.out.weight, h, 0)
    if isinstance(norm, DomainBatchNorm):
        d_z, norm.weight.grad, norm.bias.grad = torch.ops.aten.native_batch_norm_backward(
            d_z, z, norm.weight, *running, *statistics, True, _EPS, (True, True, True)
        )
    else:
        head.hidden.bias.grad = d_z.sum(dim=0)
    head.hidden.weight.grad = d_z.T @ x
    return logits.unflatten(0, features.shape[:2])


def _by_autograd(head: Head, features: Tensor, gradient_of_logits: Callable[[Tensor], Tensor]) -> Tensor:
    with torch.enable_grad():
        logits = head.after_dropout(features)
    head.zero_grad()
    logits.backward(gradient_of_logits(logits.detach()))
    return logits.detach()
