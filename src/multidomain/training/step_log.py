"""What the steps of an epoch have logged, without waiting for an accelerator after each of them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from multidomain.nn import kernels

_STEPS_AT_A_TIME = 50  # on accelerators


class StepLog:
    """Logged values of steps whose values have not been read yet.

    On the CPU they are read after each step. On an accelerator that would stop the queue of its work, so the values of
    several steps are read together.
    """

    def __init__(self, device: torch.device):
        self._device = device
        self._most = 1 if kernels.run_on(device) else _STEPS_AT_A_TIME
        self._unread: list[Mapping[str, Tensor | float]] = []

    def __len__(self) -> int:
        return len(self._unread)

    def add(self, log: Mapping[str, Tensor | float]) -> None:
        """Add the values of a step."""
        self._unread.append(log)

    @property
    def is_full(self) -> bool:
        """Tell whether the values should be read now."""
        return len(self._unread) >= self._most

    def clear(self) -> None:
        """Forget what was not read."""
        self._unread = []

    def read(self) -> list[dict[str, float]]:
        """Return the values of each step since the last time."""
        steps, self._unread = self._unread, []
        if self._most == 1:
            return [{name: float(value) for name, value in log.items()} for log in steps]
        logged = [value for log in steps for value in log.values()]
        on_device = [torch.as_tensor(value, dtype=torch.float32, device=self._device) for value in logged]
        values = iter(torch.stack(on_device).tolist() if logged else [])
        return [{name: next(values) for name in log} for log in steps]
