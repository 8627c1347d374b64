"""Checkpoints: everything that a training run needs to resume exactly, in one file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel
from safetensors.torch import save_file
from torch import Tensor

from multidomain.devices import random_state, restore_random_state
from multidomain.errors import ModelError
from multidomain.files import whole_file
from multidomain.methods.gradient import GradientMethod
from multidomain.saved import parse_json, read_tensors, tensors_under, validated

FORMAT_VERSION = 1
FROM_THE_START = "Delete it and train from the start."


class _Header(BaseModel):
    format_version: int
    fingerprint: str
    position: dict[str, Any]


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
        of_device = random_state(str(method.device))
        if of_device is not None:
            tensors["random/device"] = of_device
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
        tensors, metadata = read_tensors(self.path, "pt", FROM_THE_START)
        try:
            header = parse_json(metadata.get("multidomain", ""))
        except ValueError as error:
            raise ModelError(f"{self.path} is not a readable checkpoint ({error}).", FROM_THE_START) from None
        header = validated(header, _Header, self.path, FROM_THE_START)
        self._check(header)
        best = tensors_under(tensors, "best/")
        try:
            method.load_state_dict(best)  # to see now and not in the end whether they fit
            method.load_state_dict(tensors_under(tensors, "weights/"))
            self._restore_optimisers(method, tensors)
            torch.set_rng_state(tensors["random/cpu"])
            restore_random_state(tensors.get("random/device"), str(method.device))
        except (RuntimeError, KeyError, ValueError, TypeError) as error:
            raise ModelError(
                f"{self.path} is damaged, or from another version of the method ({error}).", FROM_THE_START
            ) from None
        return best, header.position

    def _restore_optimisers(self, method: GradientMethod, tensors: Mapping[str, Tensor]) -> None:
        for name, optimiser in method.optimisers.items():
            parameters = [p for group in optimiser.param_groups for p in group["params"]]
            state: dict[int, dict[str, Tensor]] = {}
            for key, value in tensors_under(tensors, f"optimiser/{name}/").items():
                number, _, field = key.partition("/")
                p = parameters[int(number)] if int(number) < len(parameters) else torch.empty(0)
                if value.shape not in ((), p.shape[:1], p.shape):
                    raise ValueError(f"'{key}' of the optimiser '{name}' has the shape {tuple(value.shape)}")
                state.setdefault(int(number), {})[field] = value
            optimiser.load_state_dict({**optimiser.state_dict(), "state": state})

    def _check(self, header: _Header) -> None:
        if header.format_version > FORMAT_VERSION:
            raise ModelError(f"{self.path} was written by a newer version of multidomain.", "Upgrade to resume it.")
        if header.fingerprint not in (self.fingerprint, *self.older):
            raise ModelError(
                f"{self.path} belongs to a run with other settings or other data.",
                "Repeat that run's command with {resume}, with as many processes and threads and on the same kind of "
                "device, or start over with {overwrite}.",
            )
