"""Counting n-grams of token sequences, without a Python loop over tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from multidomain.features.tokens import TokenSequences


def frequent_ngrams(documents: TokenSequences, ngram_range: tuple[int, int], most: int) -> list[str]:
    """Return the most frequent n-grams, in descending order; ties are broken alphabetically."""
    orders = list(_orders(documents, ngram_range))
    if not orders:
        return []
    everything = np.concatenate([count for _, _, count in orders])
    least = np.partition(everything, -most)[-most] if len(everything) > most else 0
    candidates: list[tuple[int, str]] = []
    for n, start, count in orders:
        kept = count >= least
        tokens = documents.ids[start[kept][:, None] + np.arange(n)]
        words = (" ".join([documents.vocabulary[i] for i in ngram]) for ngram in tokens.tolist())
        candidates += zip((-count[kept]).tolist(), words, strict=True)
    return [ngram for _, ngram in sorted(candidates)[:most]]


def _orders(documents: TokenSequences, ngram_range: tuple[int, int]) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield for each length the first position of each distinct n-gram, and its count."""
    shortest, longest = ngram_range
    row_of_token, width = documents.row_of_token, max(1, len(documents.vocabulary))
    at = np.arange(len(documents.ids))
    code = documents.ids.astype(np.int64)  # of the n-gram that begins at each position in `at`
    for n in range(1, longest + 1):
        if n > 1:
            inside = at + n - 1 < len(row_of_token)
            at, code = at[inside], code[inside]
            inside = row_of_token[at] == row_of_token[at + n - 1]
            at, code = at[inside], code[inside]
            code = code * width + documents.ids[at + n - 1]
        if not len(at):  # no text is so long
            return
        _, first, code, count = np.unique(code, return_index=True, return_inverse=True, return_counts=True)
        if n >= shortest and len(at):
            yield n, at[first], count


@dataclass(frozen=True)
class _Level:
    """N-grams of one length that are in the vocabulary or are a prefix of one that is.

    Attributes
    ----------
    keys
        Ascending: id of the n-gram without its last token, times the number of tokens, plus the last token.
    column
        Column of each in the vocabulary, -1 if only a prefix.
    """

    keys: np.ndarray
    column: np.ndarray


class NgramIndex:
    """Finds the columns of the n-grams in token sequences.

    Parameters
    ----------
    vocabulary
        The n-gram of each column, its tokens joined by a space.
    """

    def __init__(self, vocabulary: Sequence[str]):
        self._n_columns = len(vocabulary)
        ngrams = [ngram.split(" ") for ngram in vocabulary]
        self._number_of: dict[str, int] = {}
        numbers = [[self._number_of.setdefault(token, len(self._number_of)) for token in ngram] for ngram in ngrams]
        lengths = np.array([len(ngram) for ngram in ngrams], dtype=np.int64)
        tokens = np.fromiter((number for ngram in numbers for number in ngram), np.int64, lengths.sum())
        start = np.cumsum(lengths) - lengths
        self._levels: list[_Level] = []
        prefix = np.zeros(len(ngrams), dtype=np.int64)
        for n in range(1, lengths.max(initial=0) + 1):
            long_enough = lengths >= n
            key = prefix[long_enough] * len(self._number_of) + tokens[start[long_enough] + n - 1]
            keys, number = np.unique(key, return_inverse=True)
            prefix[long_enough] = number
            column = np.full(len(keys), -1, dtype=np.int32)
            ends = np.flatnonzero(lengths == n)
            column[prefix[ends]] = ends
            self._levels.append(_Level(keys, column))

    def counts(self, documents: TokenSequences) -> sp.csr_matrix:
        """Return how often each n-gram occurs in each document, in canonical form."""
        number_of = self._number_of.get
        known = np.array([number_of(token, -1) for token in documents.vocabulary], dtype=np.int64)
        token = known[documents.ids] if len(known) else np.empty(0, dtype=np.int64)
        row_of_token = documents.row_of_token
        at, prefix = np.arange(len(token)), np.zeros(len(token), dtype=np.int64)
        rows, columns = [], []
        for n, level in enumerate(self._levels, start=1):
            last = at + n - 1
            inside = last < len(token)
            at, prefix, last = at[inside], prefix[inside], last[inside]
            inside = (row_of_token[last] == row_of_token[at]) & (token[last] >= 0)
            at, prefix, last = at[inside], prefix[inside], last[inside]
            key = prefix * len(self._number_of) + token[last]
            place = np.searchsorted(level.keys, key)
            found = level.keys[np.minimum(place, len(level.keys) - 1)] == key
            at, prefix = at[found], place[found]
            column = level.column[prefix]
            rows.append(row_of_token[at[column >= 0]])
            columns.append(column[column >= 0])
        shape = (len(documents), self._n_columns)
        row = np.concatenate([*rows, np.empty(0, dtype=np.int64)])
        column = np.concatenate([*columns, np.empty(0, dtype=np.int32)])
        matrix = sp.csr_matrix((np.ones(len(row), dtype=np.float32), (row, column)), shape=shape)
        matrix.sum_duplicates()  # also sorts the indices
        return matrix
