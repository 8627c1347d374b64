"""Batch normalisation of batches that hold several domains."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from multidomain.nn.collectives import in_shared_step, mean_over_processes, share

Norm = Literal["all-domains", "per-domain", "none"]

_EPS = 1e-5  # of torch's batch norm


class DomainBatchNorm(nn.Module):
    """Batch normalisation of a batch of shape (domains, rows of each, features).

    With ``over="all-domains"`` the statistics are taken over the whole batch. With ``"per-domain"`` each
    domain's mini-batch is normalised by itself, which subtracts exactly what tells the domains apart and
    so blinds a discriminator behind it (decision 3); it is here to reproduce the authors' code.

    Where several processes train together, each has a share of every domain's mini-batch, and the statistics are those
    of the whole.
    """

    def __init__(self, n_features: int, over: Literal["all-domains", "per-domain"], momentum: float = 0.1):
        super().__init__()
        self.over = over
        self.momentum = momentum
        self.keeps_statistics = True
        self.weight = nn.Parameter(torch.ones(n_features))
        self.bias = nn.Parameter(torch.zeros(n_features))
        self.running_mean: Tensor
        self.running_var: Tensor
        self.register_buffer("running_mean", torch.zeros(n_features))
        self.register_buffer("running_var", torch.ones(n_features))

    def forward(self, x: Tensor) -> Tensor:
        if self.training and self.over == "per-domain":
            return torch.stack([self._normalise(rows) for rows in x])
        return self._normalise(x.flatten(0, 1)).view_as(x)

    def _normalise(self, x: Tensor) -> Tensor:
        if self.training and in_shared_step():
            return self._normalise_with_others(x)
        keeps = self.keeps_statistics or not self.training
        return functional.batch_norm(
            x,
            self.running_mean if keeps else None,
            self.running_var if keeps else None,
            self.weight,
            self.bias,
            self.training,
            self.momentum,
        )

    def _normalise_with_others(self, x: Tensor) -> Tensor:
        """Normalise this process's rows by the statistics over those of all processes."""
        own_mean = x.mean(dim=0)
        own_variance = (x - own_mean).square().mean(dim=0)
        # One message; in double precision, in which nothing is lost when the squares are subtracted.
        moments = torch.stack([own_mean.double(), own_variance + own_mean.double().square()])
        mean, square = mean_over_processes(moments).unbind()
        mean, variance = mean.to(x.dtype), (square - mean.square()).clamp(min=0).to(x.dtype)
        if self.keeps_statistics:
            rows = len(x) * share()[1]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * rows / (rows - 1), self.momentum)
        return (x - mean) * (variance + _EPS).rsqrt() * self.weight + self.bias
