"""The machine and versions of a record."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from multidomain.version import __version__


def machine() -> dict[str, Any]:
    """Return the versions and machine to record."""
    packages = ("torch", "numpy", "scipy", "scikit-learn", "numba", "safetensors")
    return {
        "multidomain": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "platform": platform.platform(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
