"""How an encoder and what is built on it are optimised: AdamW by groups, with warm-up and decay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn
from torch.optim import AdamW, Optimizer

from multidomain.nn import kernels
from multidomain.nn.encoders.settings import EncoderSettings
from multidomain.nn.encoders.trunk import Trunk

BASE_RATE = "base_lr"
"""Of a group of parameters: its learning rate between warm-up and decay."""


def optimiser_of(trunk: Trunk, others: Iterable[nn.Module], lr: float) -> AdamW:
    """Return the optimiser of a trunk, each layer at its own learning rate, and of other modules at a common one."""
    settings, encoder = trunk.settings, trunk.encoder
    n = len(encoder.layers)
    groups: list[dict[str, Any]] = []
    for depth, modules in [(n + 1, encoder.embeddings), *((n - i, [layer]) for i, layer in enumerate(encoder.layers))]:
        rate = settings.lr * settings.layer_decay ** (depth - 1)
        groups += _groups(modules, rate, settings.weight_decay)
    groups += _groups(others, lr, settings.weight_decay)
    fused = all(kernels.has_fused(p.device) for group in groups for p in group["params"])
    return AdamW(groups, fused=fused)


def _groups(modules: Iterable[nn.Module], lr: float, weight_decay: float) -> list[dict[str, Any]]:
    """Return what learns of modules in two groups: biases and the weights of norms do not decay."""
    parts: dict[float, list[nn.Parameter]] = {weight_decay: [], 0.0: []}
    for name, p in (named for module in modules for named in module.named_parameters()):
        if p.requires_grad:
            parts[weight_decay if _decays(name, p) else 0.0].append(p)
    return [{"params": p, "lr": lr, BASE_RATE: lr, "weight_decay": decay} for decay, p in parts.items() if p]


def _decays(name: str, p: nn.Parameter) -> bool:
    """Tell whether a parameter is a matrix, or one for each domain: so may biases be, which are known by name."""
    return p.dim() > 1 and name.rpartition(".")[2] != "bias"


def set_rates(optimiser: Optimizer, factor: float) -> None:
    """Set the learning rates of all groups to a part of what they are between warm-up and decay."""
    for group in optimiser.param_groups:
        group["lr"] = group[BASE_RATE] * factor


def rate_at(step: int, steps: int, settings: EncoderSettings) -> float:
    """Return the factor of all learning rates in a step, counted from 0.

    Examples
    --------
    >>> settings = EncoderSettings(source="minilm", warm_up=0.2)
    >>> [rate_at(step, 10, settings) for step in (0, 1, 2, 6, 9)]
    [0.5, 1.0, 1.0, 0.5, 0.125]
    """
    rising = round(settings.warm_up * steps)
    if step < rising:
        return (step + 1) / rising
    if settings.schedule == "constant":
        return 1.0
    return max(steps - step, 1) / max(steps - rising, 1)
