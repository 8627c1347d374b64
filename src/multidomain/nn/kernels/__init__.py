"""Fast inner loops; each has a plain torch equivalent that a test compares it with."""

from __future__ import annotations

import torch


def run_on(device: torch.device) -> bool:
    """Tell whether compiled loops, and what else is made for the CPU, run on a device; elsewhere plain torch does."""
    return device.type == "cpu"


def has_fused(device: torch.device) -> bool:
    """Tell whether a device has torch's fused operations in every version of torch that this package allows."""
    return device.type in ("cpu", "cuda")
