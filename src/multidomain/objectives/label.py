"""The classifier's objective."""

from __future__ import annotations

import torch
from torch import Tensor

from multidomain.nn.collectives import mean_over_processes


def J_C(logits: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
    r"""Negative log-likelihood of the labels: weighted mean within a domain's mini-batch, sum over domains.

    .. math::
        J_C = \sum_{d \in \Delta_L} \frac{1}{\sum_b \omega_{db}} \sum_{b=1}^{B}
        -\omega_{db} \log \mathrm{softmax}(C_{db})_{y_{db}}

    Parameters
    ----------
    logits
        Shape (labelled domains, B, classes).
    y
        Class codes, shape (labelled domains, B).
    weight
        Weights of rows, above 0, shape (labelled domains, B); None: all count alike.
    """
    return J_C_of_domain(logits, y, weight).sum()


def J_C_of_domain(logits: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
    """Return the terms of the sum `J_C`, shape (labelled domains,)."""
    log_p = torch.log_softmax(logits, dim=-1)
    losses = -log_p.gather(-1, y.unsqueeze(-1)).squeeze(-1)  # (labelled domains, B)
    # Mean, not sum: lam must keep its meaning when the batch size changes (decision 2).
    if weight is None:
        return losses.mean(dim=1)
    return (losses * weight).sum(dim=1) / mean_over_processes(weight.sum(dim=1))
