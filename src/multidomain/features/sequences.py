"""Documents as token sequences."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from multidomain.errors import ConfigError, DataError, counted
from multidomain.features.base import Featurizer, State, register
from multidomain.features.settings import SequenceSettings
from multidomain.features.token_rules import RULES, check_rules
from multidomain.features.tokens import TokenSequences, tokenise
from multidomain.features.word_vectors import word_vectors

UNKNOWN = "<unknown>"


class _State(BaseModel):
    """The settings of a fitted featurizer, as a saved model holds them."""

    max_words: int = Field(ge=1)
    min_count: int
    max_length: int | None = Field(ge=1, lt=2**31)
    vocabulary: list[str] = Field(min_length=1)
    token_rules: str = RULES


@register("sequences")
class SequenceFeaturizer(Featurizer):
    """Documents to token sequences. Fitted on training and unlabelled text, never on test.

    Word 0 stands for all words that are not in the vocabulary. A row of the matrix that `transform` returns holds the
    words of a document as they come: its column indices are neither sorted nor unique, and all values are 1.

    Parameters
    ----------
    max_words : int, default=50_000
        Keep the most frequent words, at most this many; ties are broken alphabetically.
    min_count : int, default=2
        Drop rarer words.
    max_length : int or None, default=None
        Truncate documents after this many words.
    vectors : str or None, default=None
        Where `input_vectors` come from: a file, ``random`` for none, or None to train them.

    Attributes
    ----------
    n_inputs : int
        Number of words, the unknown one included; 0 before `fit`.
    vocabulary : list of str or None
        The words, most frequent first after the unknown one.

    Examples
    --------
    >>> sequences = SequenceFeaturizer(min_count=1).fit(["good book", "a good film"])
    >>> sequences.vocabulary
    ['<unknown>', 'good', 'a', 'book', 'film']
    >>> sequences.transform(["A good, GOOD read"]).indices.tolist()
    [2, 1, 1, 0]
    """

    settings_type = SequenceSettings
    analyse = staticmethod(tokenise)

    def __init__(
        self, max_words: int = 50_000, min_count: int = 2, max_length: int | None = None, vectors: str | None = None
    ) -> None:
        self.max_words = max_words
        self.min_count = min_count
        self.max_length = max_length
        self.vectors = vectors
        self._number_of: dict[str, int] = {}

    @classmethod
    def from_settings(cls, settings: SequenceSettings) -> Self:
        return cls(**settings.model_dump())

    @property
    def description(self) -> str:
        return "token sequences"

    def fit(self, documents: Sequence[str] | NDArray[Any] | TokenSequences) -> Self:
        """Choose the words."""
        tokens = self._tokens(documents)
        counts = np.bincount(tokens.ids, minlength=len(tokens.vocabulary)).tolist()
        common = [(-count, word) for count, word in zip(counts, tokens.vocabulary, strict=True) if count]
        common = [(count, word) for count, word in common if -count >= self.min_count]
        if not common:
            raise DataError(
                f"No word occurs {counted(self.min_count, 'time')} or more in {counted(len(tokens), 'text')}.",
                "Check the text column ({text_column=NAME}).",
            )
        self._set_vocabulary([UNKNOWN] + [word for _, word in heapq.nsmallest(self.max_words - 1, common)])
        return self

    def transform(self, documents: Sequence[str] | NDArray[Any] | TokenSequences) -> sp.csr_matrix:
        """Return the token sequence of each document; an empty document is an empty row."""
        if not self._number_of:
            from sklearn.exceptions import NotFittedError

            raise NotFittedError("SequenceFeaturizer is not fitted: call fit() first.")
        tokens = self._tokens(documents)
        number_of = self._number_of.get
        numbers = np.array([number_of(word, 0) for word in tokens.vocabulary], dtype=np.int32)
        indices = numbers[tokens.ids] if len(numbers) else tokens.ids
        ones = np.ones(len(indices), dtype=np.float32)
        return sp.csr_matrix((ones, indices, tokens.offsets), shape=(len(tokens), self.n_inputs))

    def input_vectors(
        self,
        documents: Any,
        dimension: int,
        cache: Path,
        on_epoch: Callable[[int, int], None] = lambda done, total: None,
    ) -> np.ndarray | None:
        assert self.vocabulary is not None
        words = list(self._tokens(documents).words()) if self.vectors is None else []
        return word_vectors(self.vocabulary, words, dimension, self.vectors, self.min_count, cache, on_epoch)

    def _tokens(self, documents: Any) -> TokenSequences:
        return self.token_sequences(documents).truncated(self.max_length)

    @staticmethod
    def token_sequences(documents: Any) -> TokenSequences:
        """Return the tokens of texts, whole; vectors are refused."""
        tokens = tokenise(documents)
        if not isinstance(tokens, TokenSequences):
            raise ConfigError(
                "This extractor reads token sequences, and the documents are vectors.", "Use {extractor=mlp}."
            )
        return tokens

    def to_state(self) -> State:
        names = ("max_words", "min_count", "max_length", "vocabulary")
        return {name: getattr(self, name) for name in names} | {"token_rules": RULES}, {}

    @classmethod
    def from_state(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        state = _State.model_validate(settings)
        check_rules(state.token_rules)
        sequences = cls(state.max_words, state.min_count, state.max_length)
        sequences._set_vocabulary(state.vocabulary)
        return sequences

    def _set_vocabulary(self, words: list[str]) -> None:
        self.vocabulary = words
        self.n_inputs = len(words)
        self._number_of = {word: number for number, word in enumerate(words)}
