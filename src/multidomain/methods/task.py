"""The learning task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


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


class SavedTask(BaseModel):
    """A task as a saved model holds it, lists and all."""

    model_config = ConfigDict(strict=True, extra="forbid")

    n_inputs: int = Field(ge=1, lt=2**40)
    n_classes: int = Field(ge=1, lt=2**20)
    domains: tuple[str, ...] = Field(min_length=1, strict=False)
    labelled: tuple[int, ...] = Field(strict=False)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(set(self.domains)) < len(self.domains):
            raise ValueError("a domain is named twice")
        if list(self.labelled) != sorted({*self.labelled}) or not {*self.labelled} <= set(range(len(self.domains))):
            raise ValueError("the labelled domains are not codes of the domains in ascending order")
        return self

    def restored(self) -> Task:
        """Return the task."""
        return Task(**dict(self))
