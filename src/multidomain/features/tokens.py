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

from multidomain.arrays import ArrayWriter, blocks, looked_up, take_ranges
from multidomain.data.texts import Texts
from multidomain.errors import DataError
from multidomain.features.token_rules import TOKEN_PATTERN, is_plain, normalise
from multidomain.features.vocabulary import Vocabulary
from multidomain.kernels.parallel import chunks, map_in_threads
from multidomain.stages import stage

# Importing numba and loading compiled code take 0.7 s of CPU time: some 3 million characters in Python. A file is
# predicted in chunks, and compiled code pays from the second one on.
MANY_ROWS, MUCH_TEXT = 2048, 1_000_000
_BYTES_OF_TOKEN = 5
# The distinct tokens of so many chunks are held before they are brought together.
_CHUNKS_AT_A_TIME, _TOKENS_AT_A_TIME = 16, 1 << 22

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
        starts = self.offsets[:-1][rows]
        lengths = self.offsets[1:][rows] - starts
        return TokenSequences(self.vocabulary, take_ranges(self.ids, starts, lengths), np.r_[0, np.cumsum(lengths)])

    @property
    def row_of_token(self) -> np.ndarray:
        """Return the row of each token."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    @property
    def hashes(self) -> np.ndarray:
        """Return the hash of each token."""
        return looked_up(self.vocabulary.hashes, self.ids)

    def truncated(self, length: int | None) -> TokenSequences:
        """Return each document truncated to `length` tokens."""
        if length is None:
            return self
        lengths = np.minimum(np.diff(self.offsets), length)
        ids = take_ranges(self.ids, self.offsets[:-1], lengths)
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


def checked_texts(documents: Any) -> Sequence[str]:
    """Return texts as a list, or as they are in UTF-8; whatever else there is gets refused."""
    if isinstance(documents, Texts):
        return documents
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
    if len(documents) >= MANY_ROWS or isinstance(documents, Texts):  # which compiled code has read
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
    from multidomain.kernels.tokens import find_tokens, look_at_texts

    if not isinstance(texts, Texts):
        texts = Texts.of(texts)
    utf8, starts, ends = texts.utf8, texts.starts, texts.ends
    plain, _ = look_at_texts(utf8, starts, ends)
    doubtful = [(row, texts[row]) for row in np.flatnonzero(~plain).tolist()]
    plain[[row for row, text in doubtful if is_plain(text)]] = True
    # Of the few that are not plain the compiled code gets the tokens, each with a line break.
    found = {row: _find_tokens(normalise(text)) for row, text in doubtful if not plain[row]}
    if found:
        forms = Texts.of("".join([f"{token}\n" for token in tokens]) for tokens in found.values())
        utf8 = take_ranges(utf8, starts, ends - starts)  # of these texts alone: the array may hold a whole corpus
        ends = np.cumsum(ends - starts)
        starts, others = np.r_[0, ends][:-1], list(found)
        starts[others], ends[others] = len(utf8) + forms.starts, len(utf8) + forms.ends
        utf8 = np.concatenate([utf8, forms.utf8])
    return HashedTokens(*find_tokens(utf8, starts, ends, plain))


def _tokenise_compiled(texts: Sequence[str]) -> TokenSequences:
    from multidomain.kernels.token_ids import number_tokens

    def numbered(rows: slice) -> tuple[np.ndarray, ...]:
        found = hashed_tokens(texts[rows])
        return *number_tokens(found.utf8, found.hashes), found.offsets

    all_ids, lengths = ArrayWriter(np.int32), []
    found: list[tuple[int, np.ndarray, np.ndarray]] = []
    parts = chunks(len(texts))
    groups = list(blocks(len(parts), _CHUNKS_AT_A_TIME))
    for some in stage("tokens", groups, len(groups)):
        ids, utf8, hashes, offsets = zip(*map_in_threads(numbered, parts[some]), strict=True)
        # Each part has ids of its own; their distinct tokens together are numbered once more.
        number, words, word_hashes = number_tokens(np.concatenate(utf8), np.concatenate(hashes))
        before = np.cumsum([0, *map(len, hashes)])[:-1]
        for start, part in zip(before, ids, strict=True):
            all_ids.append(number[start:][part])
        lengths += [np.diff(part) for part in offsets]
        found.append((sum(map(len, ids)), words, word_hashes))
    ends = np.r_[0, np.cumsum(np.concatenate(lengths))]
    return TokenSequences(*_numbered_once_more(all_ids.finish(), found), ends)


def _numbered_once_more(
    ids: np.ndarray, found: Sequence[tuple[int, np.ndarray, np.ndarray]]
) -> tuple[Vocabulary, np.ndarray]:
    """Return the vocabulary of all tokens and their ids in it, from the tokens, words and hashes of each part."""
    from multidomain.kernels.token_ids import number_tokens

    _, words, hashes = found[0]
    if len(found) > 1:
        number, words, hashes = number_tokens(*(np.concatenate([part[k] for part in found]) for k in (1, 2)))
        start = known = 0
        for n, _, own_hashes in found:
            for some in blocks(n, _TOKENS_AT_A_TIME):
                here = ids[start:][some]
                np.take(number[known:], here, out=here)
            start, known = start + n, known + len(own_hashes)
    vocabulary = Vocabulary(words)
    vocabulary.hashes = hashes
    return vocabulary, ids
