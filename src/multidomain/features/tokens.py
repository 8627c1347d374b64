"""Documents as tokens."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from multidomain.errors import DataError
from multidomain.features.token_rules import TOKEN_PATTERN, is_plain, normalise
from multidomain.features.vocabulary import Vocabulary, ranges
from multidomain.kernels.parallel import chunks, map_in_threads

# Importing numba and loading compiled code take 0.7 s of CPU time: some 3 million characters in Python. A file is
# predicted in chunks, and compiled code pays from the second one on.
MANY_ROWS, MUCH_TEXT = 2048, 1_000_000
_BYTES_OF_TOKEN = 5

_find_tokens = re.compile(TOKEN_PATTERN).findall


@dataclass(frozen=True, eq=False)
class TokenSequences:
    """Token sequences of documents, as token ids.

    Row ``i`` is ``ids[offsets[i]:offsets[i + 1]]``; ``vocabulary[id]`` is the token.
    """

    vocabulary: Vocabulary
    ids: np.ndarray  # (tokens,) int32
    offsets: np.ndarray  # (rows + 1,) int64

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, rows: np.ndarray | slice) -> TokenSequences:
        """Return the selected documents, in the given order."""
        starts, lengths = self.offsets[:-1][rows], np.diff(self.offsets)[rows]
        offsets = np.r_[0, np.cumsum(lengths)]
        if isinstance(rows, slice) and rows.step in (None, 1):
            start = starts[0] if len(starts) else 0
            return TokenSequences(self.vocabulary, self.ids[start : start + offsets[-1]], offsets)
        return TokenSequences(self.vocabulary, self.ids[ranges(starts, lengths)], offsets)

    @property
    def row_of_token(self) -> np.ndarray:
        """Return the row of each token."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    @property
    def hashes(self) -> np.ndarray:
        """Return the hash of each token."""
        return self.vocabulary.hashes[self.ids]

    def truncated(self, length: int | None) -> TokenSequences:
        """Return each document truncated to `length` tokens."""
        if length is None:
            return self
        lengths = np.minimum(np.diff(self.offsets), length)
        ids = self.ids[ranges(self.offsets[:-1], lengths)]
        return TokenSequences(self.vocabulary, ids, np.r_[0, np.cumsum(lengths)])

    def words(self) -> Iterator[list[str]]:
        """Yield the tokens of each document."""
        words = list(self.vocabulary)
        for start, end in pairwise(self.offsets.tolist()):
            yield [words[i] for i in self.ids[start:end].tolist()]


@dataclass(frozen=True)
class HashedTokens:
    """Token sequences of documents, as hashes.

    Row ``i`` is ``hashes[offsets[i]:offsets[i + 1]]``; `utf8` holds all tokens, each with a line break.
    """

    utf8: np.ndarray
    hashes: np.ndarray  # (tokens,) uint64
    offsets: np.ndarray  # (rows + 1,) int64


def tokenise(documents: Any) -> Any:
    """Return the token sequences of texts; token sequences and vectors are returned unchanged.

    Examples
    --------
    >>> [words for words in tokenise(["A good, GOOD book"]).words()]
    [['a', 'good', 'good', 'book']]
    """
    if isinstance(documents, TokenSequences) or sp.issparse(documents):
        return documents
    texts = checked_texts(documents)
    return _tokenise(texts) if are_few(texts) else _tokenise_compiled(texts)


def checked_texts(documents: Any) -> list[str]:
    """Return texts as a list; whatever else there is gets refused."""
    if isinstance(documents, str):
        raise DataError("Expected a list of texts, got a single text.", "Put it into a list.")
    texts = list(documents)
    for row, text in enumerate(texts if set(map(type, texts)) != {str} else ()):
        if not isinstance(text, str):
            raise DataError(
                f"Expected texts; row {row} (counted from 0) is of type {type(text).__name__}.",
                "Drop the row, or give a sparse matrix if the documents are vectors.",
            )
    return texts


def are_few(documents: Sequence[str] | TokenSequences) -> bool:
    """Whether documents are done in Python before numba is imported."""
    if len(documents) >= MANY_ROWS:
        return False
    size = _BYTES_OF_TOKEN * len(documents.ids) if isinstance(documents, TokenSequences) else sum(map(len, documents))
    return size < MUCH_TEXT


class _Codes(dict[str, int]):
    """Numbers words in order of first lookup."""

    def __missing__(self, word: str) -> int:
        self[word] = len(self)
        return self[word]


def _tokenise(texts: Sequence[str]) -> TokenSequences:
    codes = _Codes()
    ids, offsets = array("i"), array("q", [0])
    for text in texts:
        ids.extend([codes[token] for token in _find_tokens(normalise(text))])
        offsets.append(len(ids))
    return TokenSequences(Vocabulary.of(codes), np.array(ids, dtype=np.int32), np.array(offsets, dtype=np.int64))


def hashed_tokens(texts: Sequence[str]) -> HashedTokens:
    """Return the tokens of texts and their hashes, by compiled code."""
    from multidomain.kernels.tokens import find_tokens

    plain = [is_plain(text) for text in texts]
    # Of the few others the compiled code gets the tokens, each with a line break.
    forms = [
        text.encode() if as_it_is else "".join([f"{token}\n" for token in _find_tokens(normalise(text))]).encode()
        for text, as_it_is in zip(texts, plain, strict=True)
    ]
    lengths = np.fromiter(map(len, forms), dtype=np.int64, count=len(forms))
    starts = np.r_[0, np.cumsum(lengths)]
    utf8 = np.frombuffer(b"".join(forms), dtype=np.uint8)
    return HashedTokens(*find_tokens(utf8, starts, np.array(plain, dtype=bool), lengths.max(initial=0)))


def _tokenise_compiled(texts: Sequence[str]) -> TokenSequences:
    from multidomain.kernels.token_ids import number_tokens

    def numbered(rows: slice) -> tuple[np.ndarray, ...]:
        found = hashed_tokens(texts[rows])
        return *number_tokens(found.utf8, found.hashes), found.offsets

    ids, utf8, hashes, offsets = zip(*map_in_threads(numbered, chunks(len(texts))), strict=True)
    # Each part has ids of its own; their distinct tokens together are numbered once more.
    number, words, word_hashes = number_tokens(np.concatenate(utf8), np.concatenate(hashes))
    vocabulary = Vocabulary(words)
    vocabulary.hashes = word_hashes
    before = np.cumsum([0, *map(len, hashes)])[:-1]
    return TokenSequences(
        vocabulary,
        np.concatenate([number[start:][part] for start, part in zip(before, ids, strict=True)]),
        np.r_[0, np.cumsum(np.concatenate([np.diff(part) for part in offsets]))],
    )
