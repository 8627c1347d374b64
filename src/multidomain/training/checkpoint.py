"""Checkpoints: everything that a training run needs to resume exactly, in one file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from multidomain.errors import ModelError
from multidomain.files import tensors_under, whole_file
from multidomain.methods.base import GradientMethod

FORMAT_VERSION = 1


@dataclass
class Checkpoint:
    """A file that holds weights, the best weights, both optimisers, random states and a position.

    Parameters
    ----------
    path
        The file. It is replaced atomically: a kill at any moment leaves the previous checkpoint intact.
    fingerprint
        What the run depends on (settings, data). A checkpoint of another run is refused.
    older
        The fingerprint as earlier versions computed it.
    """

    path: Path
    fingerprint: str
    older: tuple[str, ...] = ()

    def save(self, method: GradientMethod, best: dict[str, Tensor], position: dict[str, Any]) -> None:
        """Write the state of the run; `position` is JSON."""
        tensors = {f"weights/{name}": value for name, value in method.state_dict().items()}
        tensors |= {f"best/{name}": value for name, value in best.items()}
        for name, optimiser in method.optimisers.items():
            for i, state in optimiser.state_dict()["state"].items():
                tensors |= {f"optimiser/{name}/{i}/{key}": value for key, value in state.items()}
        tensors["random/cpu"] = torch.get_rng_state()
        if torch.cuda.is_available():
            tensors |= {f"random/cuda{i}": s for i, s in enumerate(torch.cuda.get_rng_state_all())}
        header = {"format_version": FORMAT_VERSION, "fingerprint": self.fingerprint, "position": position}
        with whole_file(self.path) as temporary:
            save_file(
                {name: value.contiguous() for name, value in tensors.items()},
                temporary,
                metadata={"multidomain": json.dumps(header)},
            )

    def restore(self, method: GradientMethod) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Restore `method`, its optimisers and the random states; None if there is no checkpoint.

        Returns
        -------
        tuple
            The best weights so far and the position.
        """
        if not self.path.exists():
            return None
        try:
            with safe_open(self.path, framework="pt") as file:
                header = json.loads((file.metadata() or {})["multidomain"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                version, stored, position = (header[key] for key in ("format_version", "fingerprint", "position"))
        except (SafetensorError, KeyError, ValueError) as error:
            raise ModelError(
                f"{self.path} is not a readable checkpoint ({error}).", "Delete it and train from the start."
            ) from None
        self._check(version, stored)
        try:
            method.load_state_dict(tensors_under(tensors, "weights/"))
        except RuntimeError as error:
            raise ModelError(
                f"{self.path} is from another version of the method ({error}).", "Delete it and train from the start."
            ) from None
        for name, optimiser in method.optimisers.items():
            state: dict[int, dict[str, Tensor]] = {}
            for key, value in tensors_under(tensors, f"optimiser/{name}/").items():
                i, _, field = key.partition("/")
                state.setdefault(int(i), {})[field] = value
            optimiser.load_state_dict({**optimiser.state_dict(), "state": state})
        torch.set_rng_state(tensors["random/cpu"])
        if torch.cuda.is_available():
            torch.cuda.set_rng_state_all(list(tensors_under(tensors, "random/cuda").values()))
        return tensors_under(tensors, "best/"), position

    def _check(self, version: int, fingerprint: str) -> None:
        if version > FORMAT_VERSION:
            raise ModelError(f"{self.path} was written by a newer version of multidomain.", "Upgrade to resume it.")
        if fingerprint not in (self.fingerprint, *self.older):
            raise ModelError(
                f"{self.path} belongs to a run with other settings or other data.",
                "Repeat that run's command with {resume}, or start over with {overwrite}.",
            )
