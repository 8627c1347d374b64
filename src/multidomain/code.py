"""Which code of this package it is that runs."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from pathlib import Path

from multidomain.errors import ConfigError


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
