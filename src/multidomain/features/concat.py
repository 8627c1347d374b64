"""Concatenated features of several models."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Self

import scipy.sparse as sp
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from multidomain.errors import ConfigError
from multidomain.features.base import Featurizer, State, as_documents, register, restored, stored
from multidomain.features.vocabulary import Vocabulary
from multidomain.settings import Settings


class _State(BaseModel):
    """The parts, as a saved model holds them."""

    parts: list[dict[str, Any]] = Field(min_length=1)


@register("concat")
class ConcatFeaturizer(Featurizer):
    """The features of several models, concatenated into one row.

    Parameters
    ----------
    parts : sequence of Featurizer
        Fitted featurizers. Duplicates are kept, and computed, once.

    Attributes
    ----------
    starts : tuple of int
        First column of each given part; duplicates share it.
    vocabulary : sequence of str or None
        The n-gram of each column; None if a part reads vectors.
    """

    settings_type = Settings
    analyse = staticmethod(as_documents)

    def __init__(self, parts: Sequence[Featurizer]) -> None:
        self.parts: list[Featurizer] = []
        start_of: dict[str, int] = {}
        starts = []
        for part in parts:
            key = _digest(part)
            if key not in start_of:
                start_of[key] = self.n_inputs
                self.parts.append(part)
                self.n_inputs += part.n_inputs
            starts.append(start_of[key])
        self.starts = tuple(starts)
        vocabularies = [part.vocabulary for part in self.parts if part.vocabulary is not None]
        self.vocabulary = Vocabulary.joined(vocabularies) if len(vocabularies) == len(self.parts) else None

    @classmethod
    def from_settings(cls, settings: Any) -> Self:
        raise ConfigError("Features are concatenated by the method 'ensemble', of whatever its members read.")

    @property
    def description(self) -> str:
        return "features of the members"

    def fit(self, documents: Any) -> Self:
        """Do nothing: the parts are already fitted."""
        return self

    def transform(self, documents: Any) -> sp.csr_matrix:
        """Return the concatenated rows of all parts; the order within a part's row is kept."""
        shared = as_documents(documents)
        rows = [part.transform(shared.analysed_for(type(part))) for part in self.parts]
        return sp.hstack(rows, format="csr")

    def to_state(self) -> State:
        states = [stored(part) for part in self.parts]
        arrays = {f"{i}/{name}": array for i, (_, arrays) in enumerate(states) for name, array in arrays.items()}
        return {"parts": [settings for settings, _ in states]}, arrays

    @classmethod
    def from_state(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        parts = []
        for i, part in enumerate(_State.model_validate(settings).parts):
            own = {name.removeprefix(f"{i}/"): array for name, array in arrays.items() if name.startswith(f"{i}/")}
            parts.append(restored(part, own))
        return cls(parts)


def _digest(featurizer: Featurizer) -> str:
    settings, arrays = stored(featurizer)
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(name.encode() + arrays[name].tobytes())
    return digest.hexdigest()
