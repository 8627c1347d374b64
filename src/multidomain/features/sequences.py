"""Documents as sequences of words."""

from __future__ import annotations

import heapq
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from multidomain.errors import ConfigError, DataError, counted
from multidomain.features.tokens import TOKEN_PATTERN, normalise

UNKNOWN = "<unknown>"

_find_tokens = re.compile(TOKEN_PATTERN).findall


class SequenceFeaturizer:
    """Documents to rows of word numbers, in their order. Fitted on training and unlabelled text, never on test.

    Word 0 stands for all words that are not in the vocabulary. A row of the matrix that `transform` returns holds the
    words of a document as they come: its column indices are neither sorted nor unique, and all values are 1.

    Parameters
    ----------
    max_words : int, default=50_000
        Keep the most frequent words, at most this many; the alphabet decides between equals.
    min_count : int, default=2
        Leave rarer words out.
    max_length : int or None, default=None
        Read no more than the first words of a document.

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

    weighting = "words in order"

    def __init__(self, max_words: int = 50_000, min_count: int = 2, max_length: int | None = None) -> None:
        self.max_words = max_words
        self.min_count = min_count
        self.max_length = max_length
        self.n_inputs = 0
        self.vocabulary: list[str] | None = None
        self._number_of: dict[str, int] = {}

    def fit(self, documents: Sequence[str] | NDArray[Any]) -> Self:
        """Choose the words."""
        counts: Counter[str] = Counter()
        for words in self.words(documents):
            counts.update(words)
        common = [(-count, word) for word, count in counts.items() if count >= self.min_count]
        if not common:
            raise DataError(
                f"No word occurs {counted(self.min_count, 'time')} or more in {counted(len(documents), 'text')}. Check "
                "the text column."
            )
        self._set_vocabulary([UNKNOWN] + [word for _, word in heapq.nsmallest(self.max_words - 1, common)])
        return self

    def transform(self, documents: Sequence[str] | NDArray[Any]) -> sp.csr_matrix:
        """Return the word numbers of each document; an empty document is an empty row."""
        if not self._number_of:
            raise NotFittedError("SequenceFeaturizer is not fitted: call fit() first.")
        number_of = self._number_of.get
        numbers, ends = array("i"), array("q", [0])
        for words in self.words(documents):
            numbers.extend([number_of(word, 0) for word in words])
            ends.append(len(numbers))
        ones = np.ones(len(numbers), dtype=np.float32)
        return sp.csr_matrix((ones, np.array(numbers), np.array(ends)), shape=(len(ends) - 1, self.n_inputs))

    def words(self, documents: Sequence[str] | NDArray[Any]) -> Iterator[list[str]]:
        """Yield the words of each document, cut at `max_length`."""
        if sp.issparse(documents):
            raise ConfigError(
                "This extractor reads words in their order, and the documents are vectors. Use --extractor mlp."
            )
        if isinstance(documents, str):
            raise DataError("Expected a list of texts, got a single text. Put it into a list.")
        for row, text in enumerate(documents):
            if not isinstance(text, str):
                raise DataError(f"Expected texts; row {row} (counted from 0) is of type {type(text).__name__}.")
            yield _find_tokens(normalise(text))[: self.max_length]

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return all that `from_state` needs: settings that JSON can hold, and arrays."""
        names = ("max_words", "min_count", "max_length", "vocabulary")
        return {name: getattr(self, name) for name in names}, {}

    @classmethod
    def from_state(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return sequences that transform exactly as those which gave this state."""
        sequences = cls(settings["max_words"], settings["min_count"], settings["max_length"])
        sequences._set_vocabulary(settings["vocabulary"])
        return sequences

    def _set_vocabulary(self, words: list[str]) -> None:
        self.vocabulary = words
        self.n_inputs = len(words)
        self._number_of = {word: number for number, word in enumerate(words)}
