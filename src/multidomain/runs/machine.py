"""The machine and the versions of a record."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from multidomain.threads import threads_in_use
from multidomain.version import __version__


def machine() -> dict[str, Any]:
    """Return the versions and machine to record."""
    packages: dict[str, str] = {}
    for name in ("torch", "numpy", "scipy", "scikit-learn", "numba", "safetensors"):
        with suppress(PackageNotFoundError):  # torch is an extra
            packages[name] = version(name)
    return {
        "multidomain": __version__,
        "python": platform.python_version(),
        **packages,
        "platform": platform.platform(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "threads": threads_in_use(),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
