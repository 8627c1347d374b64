"""Generated texts for benchmarks, of any number of rows and domains."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np

from multidomain.data.corpus import Corpus
from multidomain.data.values import corpus_from_rows

_WORDS = 50_000
_FIRST_SIGNAL, _SIGNALS, _OWN_SIGNALS = 200, 400, 20  # rank of the first, and how many pairs of them there are
_SIGNAL_SHARE, _RIGHT = 0.06, 0.7  # words that tell of the class, and how many of them tell the truth
_AT_A_TIME = 10_000  # rows


def generated_rows(
    n_rows: int, n_words: int, n_domains: int, seed: int = 0
) -> Iterator[tuple[list[str], np.ndarray, np.ndarray]]:
    """Yield texts of two classes, some at a time, with their labels and domains.

    Words are as frequent as in a language (Zipf). One in twenty or so indicates the class, most of them rightly. Half
    of these mean the same in all domains, half mean the opposite in every other one.
    """
    random = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    lengths = random.integers(3, 10, _WORDS)
    vocabulary = np.array(["".join(random.choice(letters, n)) for n in lengths])
    d, y = random.integers(0, n_domains, n_rows), random.integers(0, 2, n_rows)
    classes, names = np.array(["negative", "positive"]), np.array([f"domain {i:03}" for i in range(n_domains)])
    for start in range(0, n_rows, _AT_A_TIME):
        here = slice(start, start + _AT_A_TIME)
        texts = [" ".join(vocabulary[row]) for row in _word_numbers(d[here], y[here], n_words, random)]
        yield texts, classes[y[here]], names[d[here]]


def generated_corpus(n_rows: int, n_words: int, n_domains: int, seed: int = 0) -> Corpus:
    """Return `generated_rows` as a corpus."""
    texts, labels, domains = zip(*generated_rows(n_rows, n_words, n_domains, seed), strict=True)
    return corpus_from_rows(
        list(chain.from_iterable(texts)), np.concatenate(labels), np.concatenate(domains), name="generated"
    )


def _word_numbers(d: np.ndarray, y: np.ndarray, n_words: int, random: np.random.Generator) -> np.ndarray:
    """Return the numbers of the words of some texts, shape (rows, n_words)."""
    shape = (len(d), n_words)
    rank = np.exp(random.random(shape) * np.log(_WORDS)).astype(np.int64) - 1
    told = np.where(random.random(shape) < _RIGHT, y[:, None], 1 - y[:, None])
    common = _FIRST_SIGNAL + 2 * random.integers(0, _SIGNALS, shape) + told
    number = random.integers(0, _OWN_SIGNALS, shape)
    own = _FIRST_SIGNAL + 2 * (_SIGNALS + number) + np.where((number + d[:, None]) % 2 == 0, told, 1 - told)
    signal = np.where(random.random(shape) < 0.5, common, own)
    return np.where(random.random(shape) < _SIGNAL_SHARE, signal, rank)
