"""Several processes that train one model, started by ``torchrun``: how many there are, and which one this is.

The first one alone prints and writes files; the others follow.
"""

from __future__ import annotations

import os

from multidomain.errors import ConfigError

_LAUNCHED = "TORCHELASTIC_RUN_ID"  # others than torchrun set WORLD_SIZE and RANK too


def number_of_processes() -> int:
    """Return how many processes train together; 1 unless torchrun has started this one."""
    return int(os.environ["WORLD_SIZE"]) if _LAUNCHED in os.environ else 1


def rank() -> int:
    """Return the number of this process, from 0."""
    return int(os.environ["RANK"]) if _LAUNCHED in os.environ else 0


def rank_on_machine() -> int:
    """Return the number of this process among those on the same machine, from 0."""
    return int(os.environ["LOCAL_RANK"]) if _LAUNCHED in os.environ else 0


def is_first() -> bool:
    """Tell whether this is the process that prints and writes files."""
    return rank() == 0


def refuse_several(what: str) -> None:
    """Raise a `ConfigError` where one process is enough."""
    if number_of_processes() > 1:
        raise ConfigError(f"{what}, and torchrun has started {number_of_processes()}.", "Run it without torchrun.")


def check_shares(batch_size: int) -> None:
    """Raise a `ConfigError` unless the processes can share the mini-batches evenly."""
    n = number_of_processes()
    if batch_size % n:
        larger = batch_size + n - batch_size % n
        raise ConfigError(
            f"{n} processes cannot share mini-batches of {batch_size} rows evenly.",
            f"Use {{batch_size={larger}}}, or a number of processes that divides {batch_size}.",
        )


def on_each_machine() -> int:
    """Return how many of the processes are on this machine."""
    return int(os.environ["LOCAL_WORLD_SIZE"]) if _LAUNCHED in os.environ else 1
