"""Splits: no row in two parts, equal texts and groups together, every stratum shared out."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multidomain.data.corpus import PARTS, Corpus
from multidomain.data.splits import Duplicates, Split, default_split, given_split, holdout_split, kfold_split
from multidomain.data.values import corpus_from_rows
from multidomain.errors import ConfigError, DataError


def numbered(n_per_stratum=40, domains=("a", "b"), classes=("x", "y", None)):
    """A corpus of different texts, the same number in each stratum."""
    cells = [(d, y, i) for d in domains for y in classes for i in range(n_per_stratum)]
    return corpus_from_rows([f"{d} {y} {i}" for d, y, i in cells], [y for _, y, _ in cells], [d for d, _, _ in cells])


@st.composite
def corpora(draw):
    """Corpora with repeated texts, groups, missing labels and rows given as unlabelled."""
    n = draw(st.integers(3, 60))

    def column(values):
        return draw(st.lists(st.sampled_from(values), min_size=n, max_size=n))

    texts = column([f"text {i}" for i in range(draw(st.integers(1, 60)))])
    groups = column([None, None, None, "g1", "g2", "g3"]) if draw(st.booleans()) else None
    parts = column(["train", "train", "unlabelled"]) if draw(st.booleans()) else None
    return Corpus(texts, column(["x", "y", None]), column(["a", "b"]), groups=groups, parts=parts)


def linked_rows(corpus):
    """The linked rows, derived by merging sets: the plain counterpart of the graph in `cutting`."""
    sets = [{i} for i in range(len(corpus))]
    for column in (corpus.documents, corpus.groups):
        by_value = defaultdict(list)
        for i, value in enumerate([] if column is None else column):
            if value is not None:
                by_value[value].append(i)
        for rows in by_value.values():
            merged = set().union(*(sets[i] for i in rows))
            for i in merged:
                sets[i] = merged
    return sets


def part_of_rows(split, n):
    part = np.full(n, "", dtype=object)
    for name in PARTS:
        part[getattr(split, name)] = name
    return part


CUTS = (
    lambda corpus, seed: holdout_split(corpus, seed=seed),
    lambda corpus, seed: holdout_split(corpus, test_fraction=0.5, dev_fraction=0, seed=seed),
    lambda corpus, seed: kfold_split(corpus, seed % 4, 4, seed=seed),
)


@settings(max_examples=150, deadline=None)
@given(corpora(), st.integers(0, 50), st.sampled_from(CUTS))
def test_cut_splits_keep_their_promises(corpus, seed, make):
    split = make(corpus, seed)
    part = part_of_rows(split, len(corpus))
    assert sum(len(getattr(split, name)) for name in PARTS) == len(corpus)
    assert (part != "").all()
    given_unlabelled = np.zeros(len(corpus), bool) if corpus.parts is None else corpus.parts == "unlabelled"
    assert ((part == "unlabelled") == given_unlabelled).all()
    for rows in linked_rows(corpus):
        parts = {part[i] for i in rows}
        assert len(parts - {"unlabelled"}) <= 1
        if "unlabelled" in parts:
            assert parts <= {"unlabelled", "train"}
    assert split.clean_test(corpus).tolist() == split.test.tolist()
    again = make(corpus, seed)
    assert all((getattr(split, name) == getattr(again, name)).all() for name in PARTS)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), st.integers(0, 20))
def test_every_stratum_is_shared_out_to_the_row(sizes, seed):
    labels = [f"class {y}" for y, n in enumerate(sizes) for _ in range(n)]
    corpus = corpus_from_rows([f"t {i}" for i in range(len(labels))], labels)
    split = holdout_split(corpus, seed=seed)
    for y, n in enumerate(sizes):
        counts = [int((corpus.labels[rows] == f"class {y}").sum()) for rows in (split.train, split.dev, split.test)]
        for count, share in zip(counts, (0.7, 0.1, 0.2), strict=True):
            assert abs(count - share * n) <= (1 if n >= 10 else 2)
        assert n < 3 or min(counts) >= 1


@settings(max_examples=60, deadline=None)
@given(st.integers(3, 12), st.integers(1, 6), st.integers(0, 20))
def test_a_rare_class_inside_groups_reaches_every_part(n_groups, size, seed):
    # All documents have `size` rows of the common class, some of them one of the rare class too.
    rows = [(g, i) for g in range(n_groups + 20) for i in range(size + (g < n_groups))]
    labels = ["common" if i < size else "rare" for _, i in rows]
    groups = [f"document {g}" for g, _ in rows]
    corpus = Corpus([f"t {i}" for i in range(len(labels))], labels, ["d"] * len(labels), groups=groups)
    split = holdout_split(corpus, seed=seed)
    for rows in (split.train, split.dev, split.test):
        assert (corpus.labels[rows] == "rare").any()


def test_proportions_hold_with_groups_of_uneven_size():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(400), rng.integers(1, 25, 400))
    labels = rng.choice(["x", "y"], len(groups), p=[0.3, 0.7])
    corpus = Corpus(
        [f"t {i}" for i in range(len(groups))],
        [str(y) for y in labels],
        ["d"] * len(groups),
        groups=[f"g{g}" for g in groups],
    )
    split = holdout_split(corpus, seed=3)
    for y in ("x", "y"):
        total = (corpus.labels == y).sum()
        shares = [(corpus.labels[rows] == y).sum() / total for rows in (split.train, split.dev, split.test)]
        assert shares == pytest.approx([0.7, 0.1, 0.2], abs=0.02)


def test_a_text_that_makes_up_most_of_a_stratum_goes_to_train():
    corpus = corpus_from_rows(["same"] * 60 + [f"t {i}" for i in range(40)], ["x"] * 100)
    for seed in range(10):
        split = holdout_split(corpus, seed=seed)
        assert set(range(60)) <= set(split.train.tolist())
        assert len(split.test) == 20


def test_seeds_differ_and_the_rule_names_them():
    corpus = numbered()
    one, other = holdout_split(corpus, seed=1), holdout_split(corpus, seed=2)
    assert one.test.tolist() != other.test.tolist()
    assert one.rule == "held out 20% test, 10% dev, seed 1"


def test_folds_that_we_cut_cover_each_row_once():
    corpus = numbered()
    tests = [kfold_split(corpus, i, 4, seed=5) for i in range(4)]
    assert sorted(np.concatenate([s.test for s in tests]).tolist()) == list(range(len(corpus)))
    for i, split in enumerate(tests):
        assert tests[(i + 1) % 4].dev.tolist() == split.test.tolist()
        assert len(split.test) == len(split.dev) == len(corpus) // 4
    assert tests[0].rule == "fold 0 of 4, seed 5"


def test_given_folds_are_kept_as_they_are():
    corpus = Corpus(
        ["same", "same", "c", "d", "u"],
        ["x", "y", "x", "y", "x"],
        ["a"] * 5,
        parts=["train"] * 4 + ["unlabelled"],
        folds=[0, 1, 2, 2, -1],
    )
    split = kfold_split(corpus, 0, 3)
    assert (split.dev.tolist(), split.test.tolist(), split.train.tolist()) == ([0], [1], [2, 3])
    assert split.unlabelled.tolist() == [4]
    assert split.rule == "fold 0 of 3, folds given"
    assert split.duplicates(corpus) == {"a": Duplicates(test=1, in_train=1, in_train_or_unlabelled=1)}
    with pytest.raises(ConfigError, match=r"gives the folds \[0, 1, 2\], but 5 folds, 0 to 4, were asked for"):
        kfold_split(corpus, 0)


@pytest.mark.parametrize(
    ("fold", "n", "message"), [(5, 5, "fold is 5; expected a number from 0 to 4"), (0, 2, "at least 3")]
)
def test_impossible_folds(fold, n, message):
    with pytest.raises(ConfigError, match=message):
        kfold_split(numbered(), fold, n)


def test_given_parts():
    corpus = Corpus(
        ["a", "b", "c", "d"], ["x", "y", "x", None], ["d"] * 4, parts=["train", "dev", "test", "unlabelled"]
    )
    split = given_split(corpus)
    assert [getattr(split, part).tolist() for part in PARTS] == [[0], [1], [2], [3]]
    assert split.rule == "given"


def test_given_parts_without_dev_cut_it_from_train():
    base = numbered()
    parts = np.array(["train", "train", "test"], dtype=object)[np.arange(len(base)) % 3]
    corpus = Corpus(base.documents, base.labels, base.domains, parts=parts)
    split = given_split(corpus, dev_fraction=0.25, seed=3)
    train = np.flatnonzero(parts == "train")
    assert sorted([*split.train, *split.dev]) == train.tolist()
    assert len(split.dev) == len(train) // 4
    assert split.test.tolist() == np.flatnonzero(parts == "test").tolist()
    assert split.rule == "given, of train 25% as dev cut off, seed 3"


def test_no_parts_given():
    with pytest.raises(DataError, match=r"does not say which rows are train, dev or test. Add a column 'split'"):
        given_split(numbered())


def test_default_split_takes_what_fits():
    corpus = numbered()
    n = len(corpus)
    with_test = Corpus(corpus.documents, corpus.labels, corpus.domains, parts=["train", "test"] * (n // 2))
    without = Corpus(corpus.documents, corpus.labels, corpus.domains, parts=["train", "unlabelled"] * (n // 2))
    assert default_split(corpus).rule.startswith("held out")
    assert default_split(corpus, fold=2).rule == "fold 2 of 5, seed 0"
    assert default_split(with_test).rule.startswith("given")
    assert default_split(without).rule.startswith("held out")


@pytest.mark.parametrize(
    ("fractions", "message"),
    [
        ({"test_fraction": 1.2}, r"test_fraction is 1\.2; expected 0 or more and less than 1"),
        ({"test_fraction": 0.6, "dev_fraction": 0.4}, "test_fraction \\+ dev_fraction is 1; nothing would be left"),
        ({"dev_fraction": -0.1}, r"dev_fraction is -0\.1"),
    ],
)
def test_impossible_fractions(fractions, message):
    with pytest.raises(ConfigError, match=message):
        holdout_split(numbered(), **fractions)


def test_a_row_in_two_parts():
    with pytest.raises(DataError, match=r"Row index 3 is in more than one part of the split \(train, test\)"):
        Split([1, 3], [2], [3], [], rule="by hand")
    with pytest.raises(DataError, match=r"Row index 1 is twice in train"):
        Split([1, 1], [2], [3], [], rule="by hand")


@pytest.mark.parametrize(
    ("part", "allowed"), [("dev", {"selection": "oracle"}), ("test", {"transductive": True})], ids=["dev", "test"]
)
def test_text_of_a_held_out_row_may_be_unlabelled_text_only_where_the_split_says_so(part, allowed):
    rows = {"train": [0], "dev": [], "test": [], "unlabelled": [1, 2], part: [2, 3]}
    assert getattr(Split(**rows, rule="by hand", **allowed), part).tolist() == [2, 3]
    others = [{}, {"selection": "oracle"}, {"transductive": True}]
    for other in (one for one in others if one != allowed):
        with pytest.raises(
            DataError, match=rf"Row index 2 is in more than one part of the split \({part}, unlabelled\)"
        ):
            Split(**rows, rule="by hand", **other)


def test_hidden_labels_move_train_and_dev_to_unlabelled():
    corpus = numbered()
    split = holdout_split(corpus)
    hidden = split.hide_labels(corpus, ["b"])
    assert set(corpus.domains[hidden.train]) == set(corpus.domains[hidden.dev]) == {"a"}
    assert hidden.test.tolist() == split.test.tolist()
    moved = [i for i in (*split.train, *split.dev) if corpus.domains[i] == "b"]
    assert hidden.unlabelled.tolist() == sorted(moved)
    assert hidden.rule.endswith("labels hidden in b")
    with pytest.raises(DataError, match=r"has no domain 'B'.* Valid: 'a', 'b'"):
        split.hide_labels(corpus, ["B"])


def test_repeats_are_counted_within_a_domain_and_cleaned_across():
    corpus = corpus_from_rows(
        ["one", "two", "three", "ONE!", "two.", "Three", "four", "one"],
        None,
        ["a", "a", "a", "a", "a", "a", "a", "b"],
    )
    split = Split(train=[0], dev=[1], test=[3, 4, 5, 6, 7], unlabelled=[2], rule="by hand")
    assert split.duplicates(corpus) == {"a": Duplicates(4, 2, 3), "b": Duplicates(1, 0, 0)}
    assert split.clean_test(corpus).tolist() == [6]


def test_an_empty_selection_can_be_split():
    corpus = Corpus(["a", "b"], ["x", "y"], ["d", "d"], parts=["unlabelled"] * 2)
    split = holdout_split(corpus)
    assert [len(getattr(split, part)) for part in PARTS] == [0, 0, 0, 2]


@pytest.mark.timeout(20)
def test_a_large_corpus_splits_in_seconds():
    rng = np.random.default_rng(0)
    n = 300_000
    corpus = Corpus(
        [f"text {i}" for i in rng.integers(0, n, n)],
        [("x", "y", None)[i] for i in rng.integers(0, 3, n)],
        [f"d{i}" for i in rng.integers(0, 10, n)],
    )
    split = holdout_split(corpus)
    assert len(split.test) == pytest.approx(0.2 * n, rel=0.001)
