"""The device to train on: its name, whether it is there, and its random state."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, TypeAlias

from pydantic import AfterValidator

from multidomain.errors import ConfigError, MachineError, counted

if TYPE_CHECKING:
    from torch import Tensor


def checked(name: str) -> str:
    """Return the name of a device, or raise a ValueError if no device is called so."""
    if re.fullmatch(r"auto|cpu|cuda(:\d+)?|mps", name) is None:
        raise ValueError("expected auto, cpu, cuda, cuda:NUMBER or mps")
    return name


Device: TypeAlias = Annotated[str, AfterValidator(checked)]
"""``auto``, ``cpu``, ``cuda``, ``cuda:1`` or ``mps``."""


def kind_of(device: str) -> str:
    """Return the kind of a device.

    Examples
    --------
    >>> kind_of("cuda:1")
    'cuda'
    """
    return device.partition(":")[0]


def cuda_devices() -> int:
    """Return how many CUDA devices there are."""
    if find_spec("torch") is None:
        return 0
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def check_there(device: str) -> None:
    """Raise a `MachineError` if this machine does not have a device, or a `ConfigError` if no device is called so."""
    try:
        checked(device)
    except ValueError as error:
        raise ConfigError(f"'{device}' is no device: {error}.") from None
    kind, _, number = device.partition(":")
    there = {"cuda": cuda_devices, "mps": _mps_devices}.get(kind, lambda: 1)()
    if not there:
        raise MachineError(f"Device '{device}' was asked for and there is none.", _ANOTHER)
    if number and int(number) >= there:
        names = "cuda:0" if there == 1 else f"cuda:0 to cuda:{there - 1}"
        raise MachineError(
            f"Device '{device}' was asked for, and there {'is' if there == 1 else 'are'} "
            f"{counted(there, 'CUDA device')}: {names}.",
            _ANOTHER,
        )


def usable(device: str) -> str:
    """Return a device to predict on, "auto" resolved; raise a `ConfigError` if there is no such device."""
    if device == "auto":
        return "cuda" if cuda_devices() else "cpu"
    check_there(device)
    return device


_ANOTHER = "Use {device=cpu} or {device=auto}."


def _mps_devices() -> int:
    if find_spec("torch") is None:
        return 0
    import torch

    return int(torch.backends.mps.is_available())


@contextmanager
def seeded(seed: int, device: str) -> Iterator[None]:
    """Seed torch, and leave the caller's random state alone, that of the device too."""
    import torch

    before = random_state(device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            yield
        finally:
            restore_random_state(before, device)


def random_state(device: str) -> Tensor | None:
    """Return the state of an accelerator's random numbers; None for the CPU, which has torch's own."""
    import torch

    kind = kind_of(device)
    if kind == "cuda":
        return torch.cuda.get_rng_state(device)
    return torch.mps.get_rng_state() if kind == "mps" else None


def restore_random_state(state: Tensor | None, device: str) -> None:
    """Restore what `random_state` returned."""
    import torch

    if state is not None and kind_of(device) == "cuda":
        torch.cuda.set_rng_state(state, device)
    elif state is not None:
        torch.mps.set_rng_state(state)
