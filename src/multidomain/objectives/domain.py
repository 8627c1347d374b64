"""The pairs (J_D, J_Fs): what the discriminator D minimises, and what the shared extractor F_s minimises.

Both functions of a pair take the logits of D as one tensor of shape (N, B, N): row block d holds the
mini-batch of domain d. They average within a block and sum over blocks (decision 2), and they include their
sign, so that a training step adds ``lam * J_Fs`` for every pair. With a `weight` of shape (N, B) the mean is
weighted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from multidomain.nn.collectives import mean_over_processes


@dataclass(frozen=True)
class DomainObjective:
    """What D and F_s minimise in the adversarial game.

    Parameters
    ----------
    name : str
        Name in `OBJECTIVES`.
    J_D : callable
        Maps logits of D, shape (N, B, N), to the scalar that D minimises.
    J_Fs : callable
        Maps the same logits to the scalar that F_s minimises, before weighting by `lam`.
    J_D_gradient : callable
        Maps the same logits to the gradient of `J_D` with respect to them.
    """

    name: str
    J_D: Callable[..., Tensor]
    J_Fs: Callable[..., Tensor]
    J_D_gradient: Callable[..., Tensor]


def nll_J_D(logits: Tensor, weight: Tensor | None = None) -> Tensor:
    r"""Return :math:`J_D = -\sum_{d=1}^N \mathbb{E}_{f \sim P_d} \log D_d(f)`.

    Parameters
    ----------
    logits : Tensor of shape (N, B, N)
        Row block d holds the logits of D for the mini-batch of domain d.

    Returns
    -------
    Tensor
        Scalar; its minimum over D is ``N log N - N JSD(P_1, ..., P_N)`` (Theorem 1).

    Examples
    --------
    An uninformed discriminator has loss log N in every domain:

    >>> nll_J_D(torch.zeros(2, 8, 2))
    tensor(1.3863)
    """
    _check(logits)
    log_D = logits.log_softmax(dim=-1)  # (N, B, N)
    log_D_of_own = log_D.diagonal(dim1=0, dim2=2)  # (B, N): log D_d(f) for f of domain d
    return -_mean_within_sum_over_domains(log_D_of_own.T, weight)


def nll_J_D_gradient(logits: Tensor, weight: Tensor | None = None) -> Tensor:
    r"""Return :math:`\partial J_D / \partial` logits :math:`= \omega_{db} (D_j(f) - 1_{j=d})`.

    The weights sum to 1 in each domain.

    Examples
    --------
    >>> nll_J_D_gradient(torch.zeros(2, 1, 2)).flatten(1)
    tensor([[-0.5000,  0.5000],
            [ 0.5000, -0.5000]])
    """
    return _minus_one_hot(logits.softmax(dim=-1)) * _share(logits, weight)


def nll_J_Fs(logits: Tensor, weight: Tensor | None = None) -> Tensor:
    r"""Return :math:`J_{F_s} = -J_D = \sum_{d=1}^N \mathbb{E}_{f \sim P_d} \log D_d(f)`.

    Parameters
    ----------
    logits : Tensor of shape (N, B, N)
        Row block d holds the logits of D for the mini-batch of domain d.

    Returns
    -------
    Tensor
        Scalar; ``-N log N + N JSD(P_1, ..., P_N)`` when D is optimal (Theorem 1).

    Examples
    --------
    >>> nll_J_Fs(torch.zeros(2, 8, 2))
    tensor(-1.3863)
    """
    return -nll_J_D(logits, weight)


def l2_J_D(logits: Tensor, weight: Tensor | None = None) -> Tensor:
    r"""Return :math:`J_D = \sum_{d=1}^N \mathbb{E}_{f \sim P_d} \sum_{j=1}^N (D_j(f) - 1_{j=d})^2`.

    D(f) is the softmax of the logits, as the proof of Theorem 2 requires (decision 1).

    Parameters
    ----------
    logits : Tensor of shape (N, B, N)
        Row block d holds the logits of D for the mini-batch of domain d.

    Returns
    -------
    Tensor
        Scalar, at least 0.

    Examples
    --------
    >>> l2_J_D(torch.zeros(2, 8, 2))
    tensor(1.)
    """
    _check(logits)
    D = logits.softmax(dim=-1)
    one_hot = torch.eye(logits.shape[-1], dtype=logits.dtype, device=logits.device)[:, None, :]  # (N, 1, N)
    return _mean_within_sum_over_domains((D - one_hot).square().sum(dim=-1), weight)


def l2_J_D_gradient(logits: Tensor, weight: Tensor | None = None) -> Tensor:
    r"""Return :math:`\partial J_D / \partial` logits :math:`= 2 \omega_{db} D_j(f) (e_j - \sum_i e_i D_i(f))`.

    Here :math:`e_j = D_j(f) - 1_{j=d}`, and the weights sum to 1 in each domain.
    """
    D = logits.softmax(dim=-1)
    e = _minus_one_hot(D.clone())
    return 2 * D * (e - (e * D).sum(dim=-1, keepdim=True)) * _share(logits, weight)


def l2_J_Fs(logits: Tensor, weight: Tensor | None = None) -> Tensor:
    r"""Return :math:`J_{F_s} = \sum_{d=1}^N \mathbb{E}_{f \sim P_d} \sum_{j=1}^N (D_j(f) - 1/N)^2`.

    F_s pulls D towards uniform outputs; this is not the negative of D's own objective.

    Parameters
    ----------
    logits : Tensor of shape (N, B, N)
        Row block d holds the logits of D for the mini-batch of domain d.

    Returns
    -------
    Tensor
        Scalar; the mean Neyman chi-square of the domains when D is optimal (Theorem 2).

    Examples
    --------
    >>> l2_J_Fs(torch.zeros(2, 8, 2))
    tensor(0.)
    """
    _check(logits)
    D = logits.softmax(dim=-1)
    uniform = 1.0 / logits.shape[-1]
    return _mean_within_sum_over_domains((D - uniform).square().sum(dim=-1), weight)


def _mean_within_sum_over_domains(losses: Tensor, weight: Tensor | None) -> Tensor:
    """Reduce losses of shape (N, B) to a scalar."""
    # Mean, not sum: lam must keep its meaning when the batch size changes (decision 2).
    if weight is None:
        return losses.mean(dim=1).sum()
    return ((losses * weight).sum(dim=1) / mean_over_processes(weight.sum(dim=1))).sum()


def _minus_one_hot(D: Tensor) -> Tensor:
    """Subtract 1 from the output for the own domain, in place."""
    D.diagonal(dim1=0, dim2=2).sub_(1)
    return D


def _share(logits: Tensor, weight: Tensor | None) -> Tensor | float:
    """Return how much each row counts in the mean within its domain."""
    if weight is None:
        return 1 / logits.shape[1]
    return (weight / mean_over_processes(weight.sum(dim=1, keepdim=True))).unsqueeze(-1)


def _check(logits: Tensor) -> None:
    # The caller shapes the batch, not the user, so this is our bug: plain ValueError.
    if logits.ndim != 3 or logits.shape[0] != logits.shape[2] or logits.shape[1] == 0:
        raise ValueError(
            "Expected logits of D of shape (N, B, N), one block of B >= 1 rows for each of N domains; "
            f"got shape {tuple(logits.shape)}."
        )


NLL = DomainObjective(name="nll", J_D=nll_J_D, J_Fs=nll_J_Fs, J_D_gradient=nll_J_D_gradient)
L2 = DomainObjective(name="l2", J_D=l2_J_D, J_Fs=l2_J_Fs, J_D_gradient=l2_J_D_gradient)
OBJECTIVES: dict[str, DomainObjective] = {objective.name: objective for objective in (NLL, L2)}
