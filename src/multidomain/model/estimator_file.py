"""What the file of a saved estimator holds, beside those of its model."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from pydantic import BaseModel, Field, model_validator

from multidomain.methods.history import History


class SavedArray(BaseModel):
    """A one-dimensional array of names or numbers."""

    dtype: str = Field(pattern=r"^[<>=|]?([biufU][0-9]{1,4}|O)$")
    values: list[str | int | float | bool | None]

    @model_validator(mode="after")
    def _is_an_array(self) -> Self:
        self.restored()
        return self

    def restored(self) -> np.ndarray:
        """Return the array."""
        try:
            return np.array(self.values, dtype=self.dtype)
        except (TypeError, OverflowError) as error:
            raise ValueError(f"no array of {self.dtype}: {error}") from None


class EstimatorFile(BaseModel):
    """The contents of the file.

    Attributes
    ----------
    model
        SHA-256 of the manifest of its model.
    """

    model: str
    params: dict[str, Any]
    arrays: dict[Literal["classes_", "domains_", "feature_names_in_"], SavedArray]
    history: History

    @model_validator(mode="after")
    def _has_classes_and_domains(self) -> Self:
        if not {"classes_", "domains_"} <= self.arrays.keys():
            raise ValueError("classes or domains are missing")
        return self
