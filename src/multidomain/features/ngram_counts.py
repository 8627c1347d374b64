"""Which n-grams a corpus has, and how often."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from multidomain.arrays import joined, ranges
from multidomain.features.tokens import TokenSequences, are_few
from multidomain.features.vocabulary import BLANK, LINE_BREAK, Vocabulary
from multidomain.kernels.hashing import ngram_hashes
from multidomain.kernels.parallel import map_ahead
from multidomain.stages import stage
from multidomain.threads import compiled_threads

_Order = tuple[int, np.ndarray, np.ndarray, np.ndarray]
"""Length of n-grams, and of each distinct one: a place where it begins, its count and its number of documents.

The n-grams of one length may come in several parts.
"""

_TOKENS_AT_A_TIME = 1 << 23  # in a hash table; more are split up by their hashes


def frequent_ngrams(
    documents: TokenSequences, ngram_range: tuple[int, int], most: int, min_df: int = 1
) -> tuple[Vocabulary, np.ndarray]:
    """Return the most frequent n-grams, in descending order, and their hashes; ties are broken alphabetically.

    Of two n-grams that share a hash the less frequent one is left out.

    Parameters
    ----------
    min_df
        Leave out n-grams of fewer documents.
    """
    count_orders = _orders if are_few(documents) else _orders_compiled
    candidates = np.empty((3, 0), dtype=np.int64)  # length, start and count
    for n, start, count, in_documents in count_orders(documents, ngram_range):
        kept = in_documents >= min_df
        more = np.stack([np.full(kept.sum(), n), start[kept], count[kept]])
        candidates = _most_frequent(np.concatenate([candidates, more], axis=1), most)
    length, start, count = candidates
    chosen = _by_count_and_name(documents, length, start, count)[:most]
    length, start = length[chosen], start[chosen]
    tokens = documents.vocabulary.hashes[documents.ids[ranges(start, length)]]
    hashes = ngram_hashes(tokens, np.cumsum(length) - length, length)
    _, first = np.unique(hashes, return_index=True)
    if len(first) < len(hashes):
        first.sort()
        length, start, hashes = length[first], start[first], hashes[first]
    return _names(documents, length, start), hashes


def _most_frequent(candidates: np.ndarray, most: int) -> np.ndarray:
    """Return the n-grams that may be among the most frequent ones: all that are as frequent as the last of these."""
    count = candidates[2]
    return candidates if len(count) <= most else candidates[:, count >= np.partition(count, -most)[-most]]


def _by_count_and_name(
    documents: TokenSequences, length: np.ndarray, start: np.ndarray, count: np.ndarray
) -> np.ndarray:
    """Return the order of n-grams: the most frequent first, equally frequent ones by their names.

    A blank comes before all signs of a token, so that names are in the order of their tokens.
    """
    words = list(documents.vocabulary)
    rank = np.empty(len(words), dtype=np.int32)
    rank[sorted(range(len(words)), key=words.__getitem__)] = np.arange(len(words), dtype=np.int32)
    keys = [-count]
    for k in range(length.max(initial=0)):
        key = np.full(len(start), -1, dtype=np.int32)
        longer = np.flatnonzero(length > k)
        key[longer] = rank[documents.ids[start[longer] + k]]
        keys.append(key)
    return np.lexsort(keys[::-1])


def _names(documents: TokenSequences, length: np.ndarray, start: np.ndarray) -> Vocabulary:
    """Return the tokens of n-grams, joined by blanks."""
    tokens = documents.vocabulary.take(documents.ids[ranges(start, length)])
    tokens.utf8[tokens.ends] = BLANK
    tokens.utf8[tokens.ends[np.cumsum(length) - 1]] = LINE_BREAK
    return Vocabulary(tokens.utf8)


def _orders(documents: TokenSequences, ngram_range: tuple[int, int]) -> Iterator[_Order]:
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
        if n >= shortest:
            in_documents = np.bincount(np.unique(code * len(documents) + row_of_token[at]) // len(documents))
            yield n, at[first], count, in_documents


def _orders_compiled(documents: TokenSequences, ngram_range: tuple[int, int]) -> Iterator[_Order]:
    from multidomain.kernels.ngrams import count_ngrams, extend_ngrams

    shortest, longest = ngram_range
    tokens = documents.hashes
    ngrams = joined([tokens])  # hash of the n-gram that begins at each token
    parts = max(compiled_threads(), -(-len(tokens) // _TOKENS_AT_A_TIME))
    for n in range(1, min(longest, np.diff(documents.offsets).max(initial=0)) + 1):
        if n > 1:
            extend_ngrams(ngrams, tokens, documents.offsets, n)
        if n >= shortest:
            count = partial(count_ngrams, ngrams.view(np.int64), documents.ids, documents.offsets, n, parts=parts)
            for counted in stage(f"n-grams of {n}", map_ahead(count, range(parts)), parts):
                yield n, *counted
