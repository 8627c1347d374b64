"""The classifier's objective."""

from __future__ import annotations

import torch
from torch import Tensor


def J_C(logits: Tensor, y: Tensor) -> Tensor:
    r"""Negative log-likelihood of the labels: mean within a domain's mini-batch, sum over domains.

    .. math:: J_C = \sum_{d \in \Delta_L} \frac{1}{B} \sum_{b=1}^{B} -\log \mathrm{softmax}(C_{db})_{y_{db}}

    Parameters
    ----------
    logits
        Shape (labelled domains, B, classes).
    y
        Class codes, shape (labelled domains, B).
    """
    return J_C_of_domain(logits, y).sum()


def J_C_of_domain(logits: Tensor, y: Tensor) -> Tensor:
    """Return the terms of the sum `J_C`, shape (labelled domains,)."""
    log_p = torch.log_softmax(logits, dim=-1)
    # Mean, not sum: lam must keep its meaning when the batch size changes (decision 2).
    return -log_p.gather(-1, y.unsqueeze(-1)).squeeze(-1).mean(dim=1)
