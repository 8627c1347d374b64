"""Features of several models side by side."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeAlias

import scipy.sparse as sp
from numpy.typing import NDArray

from multidomain.features.ngrams import NgramFeaturizer
from multidomain.features.sequences import SequenceFeaturizer

Featurizer: TypeAlias = "NgramFeaturizer | SequenceFeaturizer | ConcatFeaturizer"


class ConcatFeaturizer:
    """What several models read of a document, one after the other in one row.

    Parameters
    ----------
    parts : sequence of Features
        Fitted. Equal ones are kept, and computed, once.

    Attributes
    ----------
    starts : tuple of int
        First column of each of the given parts; equal ones have the same.
    vocabulary : list of str or None
        What the columns stand for; None if a part reads vectors.
    """

    weighting = "as each member reads it"

    def __init__(self, parts: Sequence[Featurizer]) -> None:
        self._parts: list[Featurizer] = []
        self.n_inputs = 0
        start_of: dict[str, int] = {}
        starts = []
        for part in parts:
            key = _digest(part)
            if key not in start_of:
                start_of[key] = self.n_inputs
                self._parts.append(part)
                self.n_inputs += part.n_inputs
            starts.append(start_of[key])
        self.starts = tuple(starts)

    @property
    def vocabulary(self) -> list[str] | None:
        vocabularies = [part.vocabulary for part in self._parts]
        return None if None in vocabularies else [word for words in vocabularies for word in words or []]

    def transform(self, documents: Any) -> sp.csr_matrix:
        """Return the rows of all parts side by side; the order within a part's row stays as it is."""
        return sp.hstack([part.transform(documents) for part in self._parts], format="csr")

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return all that `from_state` needs: settings that JSON can hold, and arrays."""
        states = [stored(part) for part in self._parts]
        arrays = {f"{i}/{name}": array for i, (_, arrays) in enumerate(states) for name, array in arrays.items()}
        return {"parts": [settings for settings, _ in states]}, arrays

    @classmethod
    def from_state(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return features that transform exactly as those which gave this state."""
        parts = []
        for i, part in enumerate(settings["parts"]):
            own = {name.removeprefix(f"{i}/"): array for name, array in arrays.items() if name.startswith(f"{i}/")}
            parts.append(restored(part, own))
        return cls(parts)


_KINDS: dict[str, type[NgramFeaturizer] | type[SequenceFeaturizer] | type[ConcatFeaturizer]] = {
    "bags": NgramFeaturizer,
    "words": SequenceFeaturizer,
    "joined": ConcatFeaturizer,
}


def stored(features: Featurizer) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return all that `restored` needs: settings that JSON can hold, and arrays."""
    kind = next(kind for kind, class_ in _KINDS.items() if isinstance(features, class_))
    settings, arrays = features.to_state()
    return {"kind": kind, **settings}, arrays


def restored(settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Featurizer:
    """Return features that transform exactly as those which were stored."""
    return _KINDS[settings.get("kind", "bags")].from_state(settings, arrays)


def _digest(features: Featurizer) -> str:
    settings, arrays = stored(features)
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(name.encode() + arrays[name].tobytes())
    return digest.hexdigest()
