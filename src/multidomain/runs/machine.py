"""The machine, the versions and the code of a record."""

from __future__ import annotations

import hashlib
import os
import platform
from contextlib import suppress
from functools import cache
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from multidomain.errors import ConfigError
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


@cache
def code_hash() -> str:
    """Return a hash of the package's source, so that a record says which code made it."""
    digest = hashlib.sha256()
    root = Path(str(resources.files("multidomain")))
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def check_code(of_driver: str) -> None:
    """Refuse to work for a driver of other code, since the results would not be comparable."""
    if code_hash() != of_driver:
        raise ConfigError(
            "A worker has other code of this package than the process that keeps the results.",
            "Install the same version on all machines.",
        )
