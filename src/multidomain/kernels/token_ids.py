"""Numbering tokens, compiled."""

from __future__ import annotations

import numpy as np

from multidomain.kernels.compiled import compiled

_LINE_BREAK = ord("\n")


@compiled
def _is_same(words: np.ndarray, word: int, utf8: np.ndarray, start: int) -> bool:
    """Whether two words with their line breaks have the same bytes."""
    k = 0
    while words[word + k] == utf8[start + k]:
        if utf8[start + k] == _LINE_BREAK:
            return True
        k += 1
    return False


@compiled
def _larger(slots: np.ndarray, hashes: np.ndarray) -> np.ndarray:
    """Return a hash table of twice the size, with the same entries."""
    larger = np.full(2 * len(slots), -1, dtype=np.int32)
    for entry in slots:
        if entry >= 0:
            at = np.int64(hashes[entry]) & (len(larger) - 1)
            while larger[at] >= 0:
                at = (at + 1) & (len(larger) - 1)
            larger[at] = entry
    return larger


@compiled
def number_tokens(utf8: np.ndarray, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the id of each token, in order of first occurrence, and the distinct tokens and hashes in this order.

    Tokens are compared by their bytes: those that share a hash get ids of their own.
    """
    slots = np.full(1 << 12, -1, dtype=np.int32)
    ids = np.empty(len(hashes), dtype=np.int32)
    words, starts, own_hashes = np.empty_like(utf8), np.empty(len(hashes) + 1, dtype=np.int64), np.empty_like(hashes)
    n = start = starts[0] = 0
    for token in range(len(hashes)):
        at = np.int64(hashes[token]) & (len(slots) - 1)
        while slots[at] >= 0 and not (
            own_hashes[slots[at]] == hashes[token] and _is_same(words, starts[slots[at]], utf8, start)
        ):
            at = (at + 1) & (len(slots) - 1)
        end = start + 1
        while utf8[end - 1] != _LINE_BREAK:
            end += 1
        if slots[at] < 0:
            for k in range(end - start):
                words[starts[n] + k] = utf8[start + k]
            starts[n + 1] = starts[n] + end - start
            own_hashes[n] = hashes[token]
            slots[at] = n
            n += 1
        ids[token] = slots[at]
        start = end
        if 2 * n > len(slots):
            slots = _larger(slots, own_hashes)
    return ids, words[: starts[n]].copy(), own_hashes[:n].copy()
