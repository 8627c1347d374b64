"""Cross-validation inside a split: each labelled row is measured once, and what is held out or hidden stays so."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multidomain.data.corpus import PARTS, Corpus
from multidomain.data.splits import Split, cross_validation, holdout_split

NAMES = ("a", "b", "c", "d", "e", "f")


def numbered(domains: Sequence[str], labels: Sequence[str | None] = ("x", "y", None), n: int = 24) -> Corpus:
    """Different texts, so many of each domain and label."""
    cells = [(d, y, i) for d in domains for y in labels for i in range(n)]
    return Corpus([f"{d} {y} {i}" for d, y, i in cells], [y for _, y, _ in cells], [d for d, _, _ in cells])


@st.composite
def corpora(draw: st.DrawFn) -> Corpus:
    """Corpora with repeated texts, groups, missing labels and rows given as unlabelled."""
    n = draw(st.integers(8, 60))

    def column(values: Sequence[str | None]) -> list[str | None]:
        return draw(st.lists(st.sampled_from(values), min_size=n, max_size=n))

    texts = column([f"text {i}" for i in range(draw(st.integers(4, 60)))])
    groups = column([None, None, None, "g1", "g2"]) if draw(st.booleans()) else None
    parts = column(["train", "train", "unlabelled"]) if draw(st.booleans()) else None
    return Corpus(texts, column(["x", "y", None]), column(NAMES[:3]), groups=groups, parts=parts)


def labelled_domains(corpus: Corpus, rows: np.ndarray) -> set[str]:
    return {corpus.domains[i] for i in rows if corpus.labels[i] is not None}


def to_deal(corpus: Corpus, split: Split) -> set[int]:
    """Labelled rows of domains that training has labels of."""
    sources = labelled_domains(corpus, split.train)
    rows = (*split.train, *split.dev)
    return {int(i) for i in rows if corpus.labels[i] is not None and corpus.domains[i] in sources}


@settings(max_examples=50, deadline=None)
@given(corpora(), st.integers(2, 5), st.integers(0, 20), st.sets(st.sampled_from(NAMES[:3]), max_size=2))
def test_every_labelled_row_is_measured_once_and_no_other_row_is(
    corpus: Corpus, n_folds: int, seed: int, targets: set[str]
):
    split = holdout_split(corpus, seed=seed)
    if targets := targets & set(corpus.domain_names):
        split = split.hide_labels(corpus, targets)
    folds = cross_validation(corpus, split, n_folds, seed)
    dealt = to_deal(corpus, split)
    assert len(folds) == n_folds
    assert sorted(int(i) for fold in folds for i in fold.test) == sorted(dealt)
    for fold in folds:
        parts = {part: set(getattr(fold, part).tolist()) for part in PARTS}
        seen = set().union(*parts.values())
        texts = dealt | set(split.train.tolist()) | set(split.unlabelled.tolist())
        assert texts <= seen, "no text is lost"
        assert all(i in split.dev and corpus.labels[i] is None for i in seen - texts)
        assert sum(map(len, parts.values())) == len(seen)
        assert not seen & set(split.test.tolist())
        assert set(split.unlabelled.tolist()) <= parts["unlabelled"]
        with_label = {i for part in ("train", "dev") for i in parts[part] if corpus.labels[i] is not None}
        assert with_label <= dealt - parts["test"]
        assert parts["dev"] <= dealt, "a row without a label cannot select"


@settings(max_examples=50, deadline=None)
@given(corpora(), st.integers(2, 5), st.integers(0, 20))
def test_equal_texts_and_groups_stay_together(corpus: Corpus, n_folds: int, seed: int):
    split = holdout_split(corpus, seed=seed)
    for fold in cross_validation(corpus, split, n_folds, seed):
        part = {int(i): name for name in PARTS for i in getattr(fold, name)}
        for column in (corpus.documents, corpus.groups):
            parts_of: dict[str, set[str]] = {}
            for i in to_deal(corpus, split) if column is not None else ():
                parts_of.setdefault(column[i] or f"row {i}", set()).add(part[i])
            for parts in parts_of.values():
                assert len(parts - {"unlabelled"}) <= 1, "of the others, labels are hidden"
                assert parts == {"test"} or "test" not in parts


@pytest.mark.parametrize("n_folds", [2, 3, 5])
def test_every_domain_and_class_is_dealt_evenly(n_folds: int):
    corpus = numbered(NAMES[:3])
    split = holdout_split(corpus)
    folds = cross_validation(corpus, split, n_folds)
    for d in corpus.domain_names:
        for y in corpus.class_names:
            counts = [int(((corpus.domains == d) & (corpus.labels == y))[fold.test].sum()) for fold in folds]
            assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("n_text", [0, 500])
@pytest.mark.parametrize("share", [0, 0.1, 0.3])
def test_the_share_of_development_rows_is_kept_whatever_text_there_is_beside(share: float, n_text: int):
    labelled = numbered(NAMES[:2], labels=("x", "y"), n=60)
    split = holdout_split(labelled, dev_fraction=share)
    before = len(split.dev) / (len(split.train) + len(split.dev))
    corpus = Corpus.concat([labelled, numbered("a", labels=(None,), n=n_text)]) if n_text else labelled
    train = np.concatenate([split.train, np.arange(len(labelled), len(corpus))])
    for fold in cross_validation(corpus, Split(train, split.dev, split.test, [], rule="by hand"), 3):
        n_train = int(corpus.labelled[fold.train].sum())
        assert len(fold.dev) / (n_train + len(fold.dev)) == pytest.approx(before, abs=0.02)
        assert (len(fold.dev) == 0) == (share == 0)


def test_without_a_domain_without_labels_none_is_hidden():
    corpus = numbered(NAMES[:4])
    split = holdout_split(corpus)
    for number, fold in enumerate(cross_validation(corpus, split, 3, seed=7)):
        assert labelled_domains(corpus, fold.train) == set(NAMES[:4])
        assert fold.unlabelled.tolist() == split.unlabelled.tolist()
        assert fold.rule == f"fold {number} of 3 of what is trained on, seed 7"


@pytest.mark.parametrize("come_without", [True, False], ids=["comes without labels", "labels are hidden"])
@pytest.mark.parametrize("n_folds", [2, 3, 5])
@pytest.mark.parametrize(("n_labelled", "n_targets"), [(1, 1), (1, 3), (2, 1), (3, 2), (4, 1), (5, 1)])
def test_beside_a_target_each_domain_loses_its_labels_in_one_fold(
    n_labelled: int, n_targets: int, n_folds: int, come_without: bool
):
    sources, targets = NAMES[:n_labelled], [f"target {i}" for i in range(n_targets)]
    if come_without:
        corpus = Corpus.concat([numbered(targets, labels=(None,)), numbered(sources)])
        split = holdout_split(corpus)
    else:
        corpus = numbered([*targets, *sources])
        split = holdout_split(corpus).hide_labels(corpus, targets)
    folds = cross_validation(corpus, split, n_folds)
    times_hidden = dict.fromkeys(sources, 0)
    for fold in folds:
        shown = labelled_domains(corpus, fold.train)
        assert shown, "something must be left to learn from"
        assert labelled_domains(corpus, fold.dev) == shown
        assert labelled_domains(corpus, fold.test) == set(sources), "what is hidden is still measured"
        for name in set(sources) - shown:
            times_hidden[name] += 1
            own = {i for i in to_deal(corpus, split) | set(split.train.tolist()) if corpus.domains[i] == name}
            assert own - set(fold.test.tolist()) <= set(fold.unlabelled.tolist()), "its rows are still read as text"
    assert set(times_hidden.values()) == {0 if n_labelled == 1 else 1}


def test_labels_that_only_development_rows_of_a_domain_have_stay_unseen():
    """Such a domain is a target, whose labels must not select (decision 5), and so must not choose either."""
    corpus = numbered(NAMES[:3], labels=("x", "y"))
    split = holdout_split(corpus)
    is_target = corpus.domains == "c"
    text = split.train[is_target[split.train]]
    of_sources = split.train[~is_target[split.train]]
    folds = cross_validation(corpus, Split(of_sources, split.dev, split.test, text, rule="by hand"), 3)
    for fold in folds:
        for part in ("train", "dev", "test"):
            assert "c" not in labelled_domains(corpus, getattr(fold, part)), part
    assert {name for fold in folds for name in {"a", "b"} - labelled_domains(corpus, fold.train)} == {"a", "b"}


@pytest.mark.parametrize("part", ["test", "dev"])
def test_the_seed_deals(part: str):
    corpus = numbered(NAMES[:2])
    split = holdout_split(corpus)

    def dealt(seed: int) -> list[list[int]]:
        return [getattr(fold, part).tolist() for fold in cross_validation(corpus, split, 3, seed)]

    assert dealt(1) == dealt(1)
    assert dealt(1) != dealt(2)
