"""The learning task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class Task:
    """The learning task, as far as a method's shape depends on it.

    Attributes
    ----------
    n_inputs
        Width of the features.
    n_classes
        Number of classes.
    domains
        Names of all N domains (Delta); a domain's code is its index here.
    labelled
        Codes of the domains with labelled training rows (Delta_L), ascending.
    """

    n_inputs: int
    n_classes: int
    domains: tuple[str, ...]
    labelled: tuple[int, ...]

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the task that `dataclasses.asdict` gave these values of, lists and all."""
        return cls(**{**values, "domains": tuple(values["domains"]), "labelled": tuple(values["labelled"])})
