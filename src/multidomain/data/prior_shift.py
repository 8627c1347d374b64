"""Shifted class priors: what a method makes of an unlabelled domain whose class prior is another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from multidomain.data.corpus import Corpus
from multidomain.data.splits import Split
from multidomain.metrics import rows_of_each

FACTOR = 4
"""By which the odds of a class are multiplied or divided."""

_FEWEST_ROWS = 10  # that may be left


def hidden_domains(corpus: Corpus, split: Split, fold: Split) -> list[str]:
    """Return the labelled domains of a split whose labels are hidden in a fold of its cross-validation."""
    visible = set(fold.labelled_domains(corpus))
    return [name for name in split.labelled_domains(corpus) if name not in visible]


def shift_hidden_priors(corpus: Corpus, split: Split, folds: Sequence[Split], seed: int = 0) -> list[Split]:
    """Shift the class prior of each domain in the fold where its labels are hidden, in text and test rows alike.

    The domains take turns, fold by fold: one keeps its prior, in the next the odds of its last class are multiplied by
    4 (one in four rows of the other classes is kept), in the third they are divided by 4 (one in four rows of this
    class is kept). After these three it is the turn of the class before, and so on. The text of a shifted domain that
    never had labels is dropped as well: nobody knows its prior. A domain keeps its prior and all rows if fewer than 10
    rows of text or test, or none of a class, would be left.

    Parameters
    ----------
    split, folds
        A split, and its `cross_validation`. Only labels of training and dev rows are used.

    Examples
    --------
    >>> from multidomain.data.splits import cross_validation
    >>> corpus = Corpus([f"text {i}" for i in range(240)], ["bad", "good"] * 120, ["books", "pans", "shoes"] * 80)
    >>> split = Split(np.arange(240), [], [], [], rule="by hand").hide_labels(corpus, ["shoes"])
    >>> folds = shift_hidden_priors(corpus, split, cross_validation(corpus, split, 2))
    >>> pans = folds[1].test[corpus.domains[folds[1].test] == "pans"]
    >>> np.unique(corpus.labels[pans], return_counts=True)[1]
    array([ 5, 20])
    """
    known = np.zeros(len(corpus), dtype=bool)
    known[np.concatenate([split.train, split.dev])] = True
    known &= corpus.labelled
    shifted, turn = [], 0
    for fold in folds:
        hidden = hidden_domains(corpus, split, fold)
        shifted.append(_shifted(corpus, known, fold, hidden, turn, seed))
        turn += len(hidden)
    return shifted


def _shifted(corpus: Corpus, known: np.ndarray, fold: Split, hidden: Sequence[str], turn: int, seed: int) -> Split:
    """Return the fold with the class priors of its hidden domains shifted where enough rows are left."""
    text_of, test_of = (_by_domain(corpus, rows) for rows in (fold.unlabelled, fold.test))
    none, dropped, rules = fold.test[:0], [], [fold.rule]
    for place, domain in enumerate(hidden, start=turn):
        text, test = text_of.get(domain, none), test_of.get(domain, none)
        labelled = text[known[text]]
        rare = _rarer_classes(sorted({*corpus.labels[labelled], *corpus.labels[test]}), place)
        random = np.random.default_rng([seed, place])
        kept = [_thinned(corpus, rows, rare, random) for rows in (labelled, test)]
        if rare and min(map(len, kept)) >= _FEWEST_ROWS:
            dropped.append(np.setdiff1d(np.concatenate([text, test]), np.concatenate(kept)))
            rules.append(f"in {domain} one in {FACTOR} of {', '.join(rare)}")
    if not dropped:
        return fold
    gone = np.concatenate(dropped)
    return replace(
        fold,
        unlabelled=fold.unlabelled[~np.isin(fold.unlabelled, gone)],
        test=fold.test[~np.isin(fold.test, gone)],
        rule="; ".join(rules),
    )


def _by_domain(corpus: Corpus, rows: np.ndarray) -> dict[str, np.ndarray]:
    return {name: rows[here] for name, here in rows_of_each(corpus.domains[rows]).items()}


def _rarer_classes(classes: Sequence[str], turn: int) -> list[str]:
    """Return the classes to drop rows of: none, all but one, or that one."""
    if len(classes) < 2:
        return []
    one = classes[-1 - turn // 3 % len(classes)]
    return [[], [name for name in classes if name != one], [one]][turn % 3]


def _thinned(corpus: Corpus, rows: np.ndarray, rare: Sequence[str], random: np.random.Generator) -> np.ndarray:
    """Return the rows with one in four of each rare class; none if that leaves none of a class."""
    kept = [rows[~np.isin(corpus.labels[rows], rare)]]
    for name in rare:
        of_class = rows[corpus.labels[rows] == name]
        kept.append(random.choice(of_class, round(len(of_class) / FACTOR), replace=False))
    return np.sort(np.concatenate(kept)) if all(map(len, kept)) else rows[:0]
