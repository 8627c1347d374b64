"""N-grams by their hashes, compiled."""

from __future__ import annotations

import numpy as np

from multidomain.kernels.compiled import compiled
from multidomain.kernels.hashing import extended

_HASH, _LAST, _COUNT, _DOCUMENTS = 0, 1, 2, 3  # columns of a hash table that counts
_FEW = 48  # columns of a document that are sorted by insertion
_UPPER = np.uint64(20)

_extended = compiled(extended)


@compiled
def extend_ngrams(ngrams: np.ndarray, tokens: np.ndarray, offsets: np.ndarray, n: int) -> None:
    """Add the n-th token to the (n - 1)-gram that begins at each token, by their hashes and in place."""
    for row in range(len(offsets) - 1):
        for i in range(offsets[row], offsets[row + 1] - n + 1):
            ngrams[i] = _extended(ngrams[i], tokens[i + n - 1])


@compiled
def _is_same(ids: np.ndarray, a: int, b: int, n: int) -> bool:
    for k in range(n):
        if ids[a + k] != ids[b + k]:
            return False
    return True


@compiled
def _larger(table: np.ndarray) -> np.ndarray:
    """Return a hash table of twice the size, with the same entries."""
    larger = np.full((2 * len(table), 4), -1, dtype=np.int64)
    for entry in table:
        if entry[_LAST] >= 0:
            at = entry[_HASH] & (len(larger) - 1)
            while larger[at, _LAST] >= 0:
                at = (at + 1) & (len(larger) - 1)
            larger[at] = entry
    return larger


@compiled
def count_ngrams(
    ngrams: np.ndarray, ids: np.ndarray, offsets: np.ndarray, n: int, part: int, parts: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where each distinct n-gram occurs last, how often it occurs, and in how many documents; in no order.

    N-grams are compared by the ids of their tokens: those that share a hash are counted separately.

    Parameters
    ----------
    ngrams : ndarray of int64, shape (tokens,)
        Hash of the n-gram that begins at each token.
    ids
        Of the tokens.
    part, parts
        Count only n-grams whose hash falls into the given part of so many equal ones.
    """
    table = np.full((1 << 12, 4), -1, dtype=np.int64)
    size = 0
    for row in range(len(offsets) - 1):
        for i in range(offsets[row], offsets[row + 1] - n + 1):
            ngram = ngrams[i]
            if ((ngram >> 32 & 0xFFFFFFFF) * parts) >> 32 != part:
                continue
            at = ngram & (len(table) - 1)
            while table[at, _LAST] >= 0 and not (table[at, _HASH] == ngram and _is_same(ids, table[at, _LAST], i, n)):
                at = (at + 1) & (len(table) - 1)
            entry = table[at]
            if entry[_LAST] < 0:
                entry[:] = ngram, i, 1, 1
                size += 1
                if 2 * size > len(table):
                    table = _larger(table)
                continue
            entry[_DOCUMENTS] += entry[_LAST] < offsets[row]
            entry[_LAST] = i
            entry[_COUNT] += 1
    used = table[table[:, _LAST] >= 0]
    return used[:, _LAST].copy(), used[:, _COUNT].copy(), used[:, _DOCUMENTS].copy()


@compiled
def hash_table(hashes: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return n-grams and their columns as a hash table, at most half full; where the hash is 0 there is none."""
    size = 2
    while size < 2 * len(hashes):
        size *= 2
    slots, column_of_slot = np.zeros(size, dtype=np.uint64), np.zeros(size, dtype=np.int32)
    for k in range(len(hashes)):
        at = _slot(hashes[k], slots)
        while slots[at] != 0:
            at = (at + 1) & (size - 1)
        slots[at], column_of_slot[at] = hashes[k], columns[k]
    return slots, column_of_slot


@compiled
def _slot(ngram: np.uint64, slots: np.ndarray) -> int:
    return int(np.int64(ngram >> _UPPER) & (len(slots) - 1))


@compiled
def _most_ngrams(offsets: np.ndarray, longest: int) -> int:
    """Return how many n-grams all documents have."""
    total = 0
    for row in range(len(offsets) - 1):
        tokens = offsets[row + 1] - offsets[row]
        n = min(tokens, longest)
        total += n * tokens - n * (n - 1) // 2
    return total


@compiled
def _sort_few(values: np.ndarray) -> None:
    """Insertion sort."""
    for i in range(1, len(values)):
        value, k = values[i], i
        while k > 0 and values[k - 1] > value:
            values[k] = values[k - 1]
            k -= 1
        values[k] = value


@compiled
def _sort_many(values: np.ndarray, largest: int) -> None:
    """Radix sort of numbers from 0."""
    other, places = np.empty_like(values), np.empty(257, dtype=np.int64)
    shift = 0
    while largest >> shift:
        places[:] = 0
        for value in values:
            places[(value >> shift & 255) + 1] += 1
        for k in range(256):
            places[k + 1] += places[k]
        for value in values:
            digit = value >> shift & 255
            other[places[digit]] = value
            places[digit] += 1
        values[:] = other
        shift += 8


@compiled
def _count_columns(columns: np.ndarray, start: int, end: int, counts: np.ndarray, largest: int) -> int:
    """Sort the columns of a document and count equal ones, in place; return where they end."""
    if end - start < _FEW:
        _sort_few(columns[start:end])
    else:
        _sort_many(columns[start:end], largest)
    last = start - 1
    for i in range(start, end):
        if last >= start and columns[last] == columns[i]:
            counts[last] += 1
        else:
            last += 1
            columns[last] = columns[i]
            counts[last] = 1
    return last + 1


@compiled
def _weigh(columns: np.ndarray, values: np.ndarray, start: int, end: int, tf: np.ndarray, idf: np.ndarray) -> None:
    """Turn the counts of a document into tf-idf of length 1, rounded as numpy does it."""
    squares = 0.0
    for i in range(start, end):
        values[i] = tf[np.int64(values[i])] * idf[columns[i]]
        squares += np.float64(values[i] * values[i])
    length = np.sqrt(squares)
    for i in range(start, end):
        values[i] = np.float32(np.float64(values[i]) / length)


@compiled
def ngram_rows(
    tokens: np.ndarray,
    offsets: np.ndarray,
    longest: int,
    slots: np.ndarray,
    column_of_slot: np.ndarray,
    tf: np.ndarray,
    idf: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows of documents as the values, columns and starts of a canonical CSR matrix.

    Parameters
    ----------
    tokens : ndarray of uint64
        Hash of each token.
    offsets
        Number of each document's first token, and of all tokens.
    longest
        Longest n-gram, in tokens.
    slots, column_of_slot
        The vocabulary as a `hash_table`.
    tf, idf : ndarray of float32
        Weight of each count and of each column; empty for plain counts.
    """
    most = _most_ngrams(offsets, longest)
    columns, values = np.empty(most, dtype=np.int32), np.empty(most, dtype=np.float32)
    starts = np.zeros(len(offsets), dtype=np.int64)
    end = 0
    for row in range(len(offsets) - 1):
        start = end
        for i in range(offsets[row], offsets[row + 1]):
            ngram = tokens[i]
            for last in range(i, min(i + longest, offsets[row + 1])):
                if last > i:
                    ngram = _extended(ngram, tokens[last])
                at = _slot(ngram, slots)
                while slots[at] != 0 and slots[at] != ngram:
                    at = (at + 1) & (len(slots) - 1)
                if slots[at] != 0:
                    columns[end] = column_of_slot[at]
                    end += 1
        end = _count_columns(columns, start, end, values, len(slots))
        if len(idf):
            _weigh(columns, values, start, end, tf, idf)
        starts[row + 1] = end
    return values[:end].copy(), columns[:end].copy(), starts
