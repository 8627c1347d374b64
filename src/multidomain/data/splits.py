"""Splits: which rows train, which select the model, which test it, and which are text only."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal, TypeAlias

import numpy as np

from multidomain.data.corpus import PARTS, Corpus
from multidomain.data.settings import SplitSettings
from multidomain.data.stratify import components, cut, strata
from multidomain.data.values import check_domain_names
from multidomain.errors import ConfigError, DataError

Selection: TypeAlias = Literal["source-dev", "oracle"]


@dataclass(frozen=True)
class Duplicates:
    """How many test rows of a domain have duplicates elsewhere in the same domain.

    Parameters
    ----------
    test
        Test rows.
    in_train
        Those whose normalised text is in train or dev.
    in_train_or_unlabelled
        Those whose normalised text is in train, dev or the unlabelled text.
    """

    test: int
    in_train: int
    in_train_or_unlabelled: int


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers of a corpus by part; no row is in two parts, except as the last two parameters allow.

    Parameters
    ----------
    train
        Rows to learn from. Those without a label serve as text only.
    dev
        Rows to select the model on.
    test
        Rows to score.
    unlabelled
        Rows used as text only, whether or not they carry a label.
    rule
        How the split came about, for people.
    selection
        Whose labels may select the model: ``source-dev`` those of domains that have labels in training,
        ``oracle`` those of the whole dev set, a target's too (its text may then be unlabelled text as well).
    transductive
        The unlabelled text may hold texts of the test part, without their labels.

    Examples
    --------
    >>> corpus = Corpus(["a", "b", "c", "d"], ["good", "bad"] * 2, ["books", "books", "pans", "pans"])
    >>> split = Split(train=[0, 1, 2], dev=[], test=[3], unlabelled=[], rule="by hand")
    >>> split.hide_labels(corpus, ["pans"]).unlabelled
    array([2])
    """

    train: np.ndarray
    dev: np.ndarray
    test: np.ndarray
    unlabelled: np.ndarray
    rule: str
    selection: Selection = "source-dev"
    transductive: bool = False

    def __post_init__(self) -> None:
        for part in PARTS:
            object.__setattr__(self, part, np.asarray(getattr(self, part), dtype=np.int64))
        allowed = {("dev", "unlabelled"): self.selection == "oracle", ("test", "unlabelled"): self.transductive}
        repeated = [(part, part, _repeated(getattr(self, part))) for part in PARTS]
        repeated += [
            (a, b, np.intersect1d(getattr(self, a), getattr(self, b)))
            for a, b in combinations(PARTS, 2)
            if not allowed.get((a, b), False)
        ]
        for a, b, rows in repeated:
            if len(rows):
                where = f"twice in {a}" if a == b else f"in more than one part of the split ({a}, {b})"
                raise DataError(f"Row index {rows[0]} is {where}. Each row may be in one part, once.")

    def hide_labels(self, corpus: Corpus, domains: Collection[str]) -> Split:
        """Return the split with the labels of some domains hidden.

        Their train and dev rows become unlabelled text; their test rows stay, to be scored.
        """
        check_domain_names(list(domains), corpus)
        hidden = corpus.in_domains(domains)
        names = dict.fromkeys(corpus.domains[hidden])
        moved = [rows[hidden[rows]] for rows in (self.train, self.dev)]
        return replace(
            self,
            train=self.train[~hidden[self.train]],
            dev=self.dev[~hidden[self.dev]],
            unlabelled=np.unique(np.concatenate([self.unlabelled, *moved])),
            rule=f"{self.rule}; labels hidden in {', '.join(names)}",
        )

    def labelled_domains(self, corpus: Corpus) -> list[str]:
        """Return the domains that have labels in training."""
        found = set(corpus.domains[self.train[corpus.labelled[self.train]]])
        return [name for name in corpus.domain_names if name in found]

    def duplicates(self, corpus: Corpus) -> dict[str, Duplicates]:
        """Count for each domain the test rows with duplicates elsewhere in the domain."""
        domain = corpus.domain_codes
        n_domains = len(corpus.domain_names)
        _, text = np.unique(corpus.text_keys(), return_inverse=True)
        pair = text * n_domains + domain  # the same text in another domain is not a duplicate
        in_train = np.isin(pair[self.test], pair[np.concatenate([self.train, self.dev])])
        in_any = in_train | np.isin(pair[self.test], pair[self.unlabelled])
        counts = [
            np.bincount(domain[rows], minlength=n_domains).tolist()
            for rows in (self.test, self.test[in_train], self.test[in_any])
        ]
        return {name: Duplicates(*of_domain) for name, *of_domain in zip(corpus.domain_names, *counts, strict=True)}

    def clean_test(self, corpus: Corpus) -> np.ndarray:
        """Return the test rows whose normalised text is in no other part, of any domain."""
        keys = corpus.text_keys()
        text_of_others = np.setdiff1d(self.unlabelled, self.test)
        others = np.concatenate([self.train, self.dev, text_of_others])
        return self.test[~np.isin(keys[self.test], keys[others])]


def _repeated(rows: np.ndarray) -> np.ndarray:
    values, counts = np.unique(rows, return_counts=True)
    return values[counts > 1]


def split_by(corpus: Corpus, settings: SplitSettings) -> Split:
    """Return the split that settings describe."""
    split = default_split(corpus, fold=settings.fold, seed=settings.seed)
    return split.hide_labels(corpus, settings.unlabelled) if settings.unlabelled else split


def default_split(corpus: Corpus, *, fold: int | None = None, seed: int = 0) -> Split:
    """Return the default split: the given fold, else the given parts, else a holdout split.

    Given parts are kept; a dev or test part that is not there is cut from train.
    """
    if fold is not None:
        return kfold_split(corpus, fold, seed=seed)
    if _gives_held_out(corpus):
        return given_split(corpus, test_fraction=0.2, seed=seed)
    return holdout_split(corpus, seed=seed)


def _gives_held_out(corpus: Corpus) -> bool:
    return corpus.parts is not None and bool(np.isin(corpus.parts.astype(str), ("dev", "test")).any())


def given_split(corpus: Corpus, *, dev_fraction: float = 0.1, test_fraction: float = 0.0, seed: int = 0) -> Split:
    """Return the parts as the files gave them.

    A dev or test part that is not there is cut from train, stratified, with groups and duplicates together.
    """
    if corpus.parts is None:
        raise DataError(
            f"'{corpus.name}' does not say which rows are train, dev or test.",
            "Add a column 'split', or split the corpus with holdout_split or kfold_split.",
        )
    rows = {part: np.flatnonzero(corpus.parts == part) for part in PARTS}
    wanted = {"dev": dev_fraction, "test": test_fraction}
    missing = {part: share for part, share in wanted.items() if share and not len(rows[part])}
    if not missing:
        return _of_parts(rows, "given")
    _check_fractions(**missing)
    bound, free = _train_only(corpus, rows["train"])
    of_row = _cut_rows(corpus, free, np.array([1 - sum(missing.values()), *missing.values()]), seed)
    for place, part in enumerate(missing, start=1):
        rows[part] = free[of_row == place]
    rows["train"] = np.sort(np.concatenate([bound, free[of_row == 0]]))
    cut_off = " and ".join(f"{share:.0%} as {part}" for part, share in missing.items())
    return _of_parts(rows, f"given, of train {cut_off} cut off, seed {seed}")


def _of_parts(rows: dict[str, np.ndarray], rule: str) -> Split:
    return Split(rows["train"], rows["dev"], rows["test"], rows["unlabelled"], rule)


def holdout_split(corpus: Corpus, *, test_fraction: float = 0.2, dev_fraction: float = 0.1, seed: int = 0) -> Split:
    """Hold out rows: stratified by domain and class, with groups and duplicates together.

    Rows given as ``unlabelled`` stay so, and rows linked to them by text or group go to train: no test text
    is ever seen in training.
    """
    _check_fractions(test=test_fraction, dev=dev_fraction)
    shares = np.array([1 - dev_fraction - test_fraction, dev_fraction, test_fraction])
    unlabelled, bound, free = _roles(corpus)
    part = _cut_rows(corpus, free, shares, seed)
    return Split(
        train=np.sort(np.concatenate([bound, free[part == 0]])),
        dev=free[part == 1],
        test=free[part == 2],
        unlabelled=unlabelled,
        rule=f"held out {100 * test_fraction:g}% test, {100 * dev_fraction:g}% dev, seed {seed}",
    )


def kfold_split(corpus: Corpus, fold: int, n_folds: int = 5, *, seed: int = 0) -> Split:
    """Return run `fold` of a cross-validation: that fold is dev, the next one test, the others train.

    Folds that the files give are taken as they are. Otherwise they are cut, stratified, with groups and equal
    texts together; rows linked to a row given as ``unlabelled`` are then always in train.
    """
    if n_folds < 3:
        raise ConfigError(f"n_folds is {n_folds}; at least 3 are needed, for train, dev and test.")
    if not 0 <= fold < n_folds:
        raise ConfigError(f"fold is {fold}; expected a number from 0 to {n_folds - 1}.")
    if corpus.folds is None and _gives_held_out(corpus):
        raise ConfigError(
            f"'{corpus.name}' says which rows are dev or test, which folds would train on. Leave the fold out, or give "
            "all rows as train."
        )
    unlabelled, bound, free = _roles(corpus)
    if corpus.folds is not None:
        bound, free = bound[:0], np.sort(np.concatenate([bound, free]))
        of_row = _given_folds(corpus, free, n_folds)
        rule = f"fold {fold} of {n_folds}, folds given"
    else:
        of_row = _cut_rows(corpus, free, np.full(n_folds, 1 / n_folds), seed)
        rule = f"fold {fold} of {n_folds}, seed {seed}"
    in_dev, in_test = of_row == fold, of_row == (fold + 1) % n_folds
    return Split(
        train=np.sort(np.concatenate([bound, free[~in_dev & ~in_test]])),
        dev=free[in_dev],
        test=free[in_test],
        unlabelled=unlabelled,
        rule=rule,
    )


def cross_validation(corpus: Corpus, split: Split, n_folds: int, seed: int = 0) -> list[Split]:
    """Return splits of the rows that training may see, in which each labelled one is a test row once.

    Duplicates stay together, and the fraction of dev rows is unchanged. If the split has domains without labels in
    training, the labels of each other domain are hidden in one of the splits, as long as one domain has labels left.
    """
    names = split.labelled_domains(corpus)
    rows = np.sort(np.concatenate([split.train, split.dev]))
    labelled = rows[corpus.labelled[rows] & corpus.in_domains(names)[rows]]
    text = rows[~corpus.labelled[rows]]
    fold_of_row = _cut_rows(corpus, labelled, np.full(n_folds, 1 / n_folds), seed)
    dev_share = np.isin(labelled, split.dev).mean() if len(labelled) else 0.0
    splits = []
    for fold in range(n_folds):
        rest = labelled[fold_of_row != fold]
        in_dev = _cut_rows(corpus, rest, np.array([1 - dev_share, dev_share]), seed) == 1
        own = Split(
            train=np.sort(np.concatenate([rest[~in_dev], text])),
            dev=rest[in_dev],
            test=labelled[fold_of_row == fold],
            unlabelled=split.unlabelled,
            rule=f"fold {fold} of {n_folds} of what is trained on, seed {seed}",
        )
        hidden = names[fold::n_folds] if len(names) < len(corpus.domain_names) else []
        splits.append(own.hide_labels(corpus, hidden) if 0 < len(hidden) < len(names) else own)
    return splits


def _roles(corpus: Corpus) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows given as unlabelled, those that must train, and those free to be split.

    Rows that are linked to an unlabelled one must train, and so must those of `train_only`.
    """
    given = np.zeros(len(corpus), dtype=bool) if corpus.parts is None else corpus.parts == "unlabelled"
    component = components(corpus)
    linked = np.isin(component, component[given]) & ~given
    bound, free = _train_only(corpus, np.flatnonzero(~given & ~linked))
    return np.flatnonzero(given), np.sort(np.concatenate([np.flatnonzero(linked), bound])), free


def _train_only(corpus: Corpus, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return those of the rows that must train, with their duplicates and groups, and the rest."""
    if corpus.train_only is None:
        return rows[:0], rows
    component = components(corpus)
    bound = np.isin(component[rows], component[corpus.train_only])
    return rows[bound], rows[~bound]


def _cut_rows(corpus: Corpus, rows: np.ndarray, shares: np.ndarray, seed: int) -> np.ndarray:
    return cut(components(corpus)[rows], strata(corpus)[rows], shares, np.random.default_rng(seed))


def _given_folds(corpus: Corpus, rows: np.ndarray, n_folds: int) -> np.ndarray:
    assert corpus.folds is not None
    folds = corpus.folds[rows]
    if len(rows) == 0 or folds.min() < 0 or folds.max() != n_folds - 1:
        found = sorted(set(folds.tolist()))
        raise ConfigError(
            f"'{corpus.name}' gives the folds {found}, but {n_folds} folds, 0 to {n_folds - 1}, were asked for."
        )
    return folds


def _check_fractions(**fractions: float) -> None:
    for name, value in fractions.items():
        if not 0 <= value < 1:
            raise ConfigError(f"{name}_fraction is {value}; expected 0 or more and less than 1.")
    if sum(fractions.values()) >= 1:
        total = " + ".join(f"{name}_fraction" for name in fractions)
        raise ConfigError(f"{total} is {sum(fractions.values()):g}; nothing would be left to train on.")
