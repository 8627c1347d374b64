"""When training has diverged: a loss, a gradient or a weight is not finite, or has exploded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from multidomain.methods.finite import weights_are

LARGEST_WEIGHT = 2.0**24
"""From this size on, steps of 1 or less no longer change a float32, so no learning rate up to 1 leads beyond it."""

LARGEST_LOSS = 1e5
"""Times the cross-entropy of uniform predictions, or of the initial weights if that is larger."""


class Divergence(Exception):
    """A loss, a gradient or a weight is not finite, or has exploded. The training loop adds when, and what to do."""


def is_finite(value: Tensor) -> bool:
    """Tell whether all entries of a tensor are finite; nothing of its size is allocated."""
    return not value.is_floating_point() or not value.numel() or bool(_extremes(value).isfinite().all())


def not_finite(tensors: Iterable[tuple[str, Tensor]]) -> list[str]:
    """Return the names of the tensors that are not finite."""
    return [name for name, value in tensors if not is_finite(value)]


def check_losses(log: Mapping[str, float], usual: Mapping[str, float], method: nn.Module) -> None:
    """Raise a `Divergence` if a logged value is not finite, or a loss is `LARGEST_LOSS` times the usual one.

    Parameters
    ----------
    usual
        Values of the losses that can explode, before anything is learnt.
    method
        The message names its weights, if they are not finite either.
    """
    bad = [name for name, value in log.items() if not math.isfinite(value)]
    if bad:
        weights = not_finite(method.state_dict().items())
        why = f", for {weights_are(weights)} not," if weights else ""
        raise Divergence(f"{', '.join(bad)} {'is' if len(bad) == 1 else 'are'} not finite{why}")
    for name, value in usual.items():
        if abs(log.get(name, 0.0)) > LARGEST_LOSS * value:
            raise Divergence(f"{name} is {log[name]:.3g}, beyond {LARGEST_LOSS * value:.3g},")


def check_weights(method: nn.Module) -> None:
    """Raise a `Divergence` if a weight or a running statistic is not finite, or a weight exceeds `LARGEST_WEIGHT`."""
    bad = not_finite(method.state_dict().items())
    if bad:
        raise Divergence(f"{weights_are(bad)} not finite")
    for name, weight in method.named_parameters():
        largest = float(_extremes(weight).abs().max()) if weight.requires_grad and weight.numel() else 0.0
        if largest > LARGEST_WEIGHT:
            raise Divergence(f"weight '{name}' is as large as {largest:.3g}, beyond {LARGEST_WEIGHT:.3g},")


def _extremes(value: Tensor) -> Tensor:
    """Return the smallest and the largest entry; both are NaN if one is."""
    return torch.stack(torch.aminmax(value.detach()))
