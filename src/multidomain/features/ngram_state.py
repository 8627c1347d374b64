"""N-gram featurizers in saved models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from multidomain.features.ngram_table import NgramTable
from multidomain.features.settings import LONGEST_NGRAM, Weighting
from multidomain.features.token_rules import check_rules
from multidomain.features.vocabulary import BLANK, LINE_BREAK, Vocabulary
from multidomain.kernels.hashing import ngram_hashes, token_hashes

_COMPARED = 64


class NgramState(BaseModel):
    """The settings of a fitted featurizer.

    Attributes
    ----------
    vocabulary
        The n-grams in models of version 0.1; those since have them in the arrays ``vocabulary`` and ``hashes``.
    token_rules
        Name of the token rules; None for vectors, and in models of version 0.1.
    """

    weighting: Weighting
    max_features: int = Field(ge=1)
    ngram_range: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(le=LONGEST_NGRAM)]]
    min_df: int = Field(1, ge=1)
    n_inputs: int = Field(ge=1, lt=2**40)
    vocabulary: list[str] | None = None
    token_rules: str | None = None


def stored_vocabulary(vocabulary: Vocabulary, table: NgramTable) -> dict[str, NDArray[Any]]:
    """Return the arrays that `read_vocabulary` reads."""
    hashes = table.hashes_of(np.arange(len(vocabulary)))
    return {"vocabulary": vocabulary.utf8, "hashes": hashes.view(np.int64)}


def read_vocabulary(
    state: NgramState, arrays: Mapping[str, NDArray[Any]]
) -> tuple[Vocabulary, np.ndarray] | tuple[None, None]:
    """Return the n-grams of the columns and their hashes; None for vectors.

    Raises
    ------
    ValueError
        The state is damaged or was forged.
    """
    if state.token_rules is None:
        if state.vocabulary is None:
            return None, None
        vocabulary = Vocabulary.of(state.vocabulary)
        return vocabulary, hashes_of(vocabulary, state.ngram_range[1])
    check_rules(state.token_rules)
    utf8, hashes = arrays["vocabulary"], arrays["hashes"]
    if (utf8.dtype, utf8.ndim, hashes.dtype, hashes.ndim) != (np.uint8, 1, np.int64, 1):
        raise ValueError("the vocabulary or its hashes are of another type")
    vocabulary, hashes = Vocabulary(utf8), hashes.view(np.uint64)
    expected = hashes_of(vocabulary, state.ngram_range[1], min(_COMPARED, len(hashes)))
    if not np.array_equal(hashes[: len(expected)], expected):
        raise ValueError("the hashes are not those of the vocabulary")
    return vocabulary, hashes


def hashes_of(vocabulary: Vocabulary, longest: int = LONGEST_NGRAM, most: int | None = None) -> np.ndarray:
    """Return the hashes of the first n-grams of a vocabulary, by default of all; all are checked."""
    _ = vocabulary.text  # raises an error if it is not UTF-8
    ends = np.flatnonzero((vocabulary.utf8 == BLANK) | (vocabulary.utf8 == LINE_BREAK))  # of tokens
    if (np.diff(ends, prepend=-1) < 2).any():
        raise ValueError("an n-gram has an empty token")
    lengths = np.diff(np.searchsorted(ends, vocabulary.ends), prepend=-1)
    if lengths.max(initial=0) > longest:
        raise ValueError(f"an n-gram has {lengths.max()} tokens, and the longest may have {longest}")
    lengths = lengths[:most]
    ends = ends[: lengths.sum()]
    tokens = token_hashes(vocabulary.utf8[: ends[-1] + 1 if len(ends) else 0], ends)
    return ngram_hashes(tokens, np.cumsum(lengths) - lengths, lengths)
