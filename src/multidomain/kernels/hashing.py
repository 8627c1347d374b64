"""64-bit hashes of tokens and n-grams (decision 27). Saved models hold them: changing one is a change of the format.

The functions take scalars when compiled, and arrays in numpy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

BASE = np.uint64(0x9E3779B97F4A7C15)
_MIXER = np.uint64(0xD6E8FEB86659FD93)
_32, _29 = np.uint64(32), np.uint64(29)


def mixed(code: Any) -> Any:
    """Return the hash of a token from its bytes as the digits of a number to `BASE`, modulo 2^64."""
    code = (code ^ (code >> _32)) * _MIXER
    return code ^ (code >> _29)


def extended(ngram: Any, token: Any) -> Any:
    """Return the hash of an n-gram and one more token; an n-gram of one token has the token's hash."""
    return (ngram ^ (ngram >> _32)) * _MIXER + token


def token_hashes(utf8: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the hashes of tokens that are each followed by one separator.

    Parameters
    ----------
    utf8
        The tokens, one after another, each with its separator.
    ends
        Where each token's separator stands.
    """
    if not len(ends):
        return np.empty(0, dtype=np.uint64)
    lengths = np.diff(ends, prepend=-1)
    powers = np.full(max(2, lengths.max()), BASE)
    powers[:2] = 1
    powers = np.cumprod(powers)
    powers[0] = 0  # of the separator; the last byte counts once
    from_end = np.repeat(ends, lengths) - np.arange(len(utf8))
    return mixed(np.add.reduceat(utf8 * powers[from_end], ends - lengths + 1))


def ngram_hashes(tokens: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the hashes of n-grams of `lengths` tokens that begin at `starts`, from the hashes of all tokens."""
    hashes = tokens[starts]
    for n in range(1, lengths.max(initial=0)):
        longer = np.flatnonzero(lengths > n)
        hashes[longer] = extended(hashes[longer], tokens[starts[longer] + n])
    return hashes
