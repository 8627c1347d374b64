"""Re-splitting: new splits of the same kind as a corpus has, into its parts and folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from multidomain.data.corpus import Corpus
from multidomain.data.stratify import components, cut, strata


def resplit_parts(corpus: Corpus, balanced: Sequence[str], rest: str, rng: np.random.Generator) -> Corpus:
    """Return the corpus with the rows of some parts pooled and re-split into these parts.

    Groups and duplicates, across domains, always go to one part. A part has as many rows of each
    domain as it had, and a balanced part as many of each class as of the others, as far as a class has rows. Both hold
    to the row while texts that stand once are left to fill up what the others leave open; where there are none left, a
    part may miss its size by a few rows.

    Parameters
    ----------
    balanced
        Parts in which the classes of a domain get the same number of rows.
    rest
        The part that gets the remaining rows.
    rng
        Breaks ties at random.
    """
    assert corpus.parts is not None
    names = (*balanced, rest)
    pooled = np.flatnonzero(np.isin(corpus.parts.astype(str), names))
    _, stratum = np.unique(strata(corpus)[pooled], return_inverse=True)
    wanted = _wanted(corpus.parts[pooled], corpus.domain_codes[pooled], stratum, balanced)
    shares = wanted / wanted.sum(axis=1, keepdims=True)
    parts = corpus.parts.copy()
    parts[pooled] = np.array(names, dtype=object)[cut(components(corpus)[pooled], stratum, shares, rng)]
    return replace(corpus, parts=parts)


def resplit_folds(corpus: Corpus, rng: np.random.Generator) -> Corpus:
    """Return the corpus with all rows but unlabelled ones re-split into as many folds as it has.

    Stratified by domain and class, with groups and duplicates, across domains, in one fold.
    """
    assert corpus.folds is not None
    n_folds = int(corpus.folds.max()) + 1
    in_folds = np.ones(len(corpus), dtype=bool) if corpus.parts is None else corpus.parts != "unlabelled"
    folds = np.full(len(corpus), -1, dtype=np.int64)
    shares = np.full(n_folds, 1 / n_folds)
    folds[in_folds] = cut(components(corpus)[in_folds], strata(corpus)[in_folds], shares, rng)
    return replace(corpus, folds=folds)


def _wanted(part: np.ndarray, domain: np.ndarray, stratum: np.ndarray, balanced: Sequence[str]) -> np.ndarray:
    """Return the target number of rows of each stratum in each balanced part, and in the last column the rest."""
    left = np.bincount(stratum)
    wanted = np.zeros((len(left), len(balanced) + 1), dtype=np.int64)
    for d in np.unique(domain):
        classes = np.unique(stratum[domain == d])
        for column, name in enumerate(balanced):
            size = int(((domain == d) & (part == name)).sum())
            wanted[classes, column] = _evenly(size, left[classes])
            left[classes] -= wanted[classes, column]
    wanted[:, -1] = left
    return wanted


def _evenly(n: int, available: np.ndarray) -> np.ndarray:
    """Return how many to take of each kind for `n` in total: equally many, or all where a kind has fewer."""
    taken = np.zeros_like(available)
    for place, kind in enumerate(np.argsort(available, kind="stable")):
        taken[kind] = min(available[kind], (n - taken.sum()) // (len(available) - place))
    return taken
