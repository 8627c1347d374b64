"""Hidden domains get another class prior, in text and test rows alike, and nothing else changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multidomain.data.corpus import PARTS, Corpus
from multidomain.data.prior_shift import hidden_domains, shift_hidden_priors
from multidomain.data.splits import Split, cross_validation, holdout_split

SOURCES = ("a", "b", "c", "d", "e", "f")


def corpus_of(sizes: dict[str, int], domains: Sequence[str] = SOURCES, texts: int = 0) -> Corpus:
    """Domains with so many rows of each class, and so many without a label; the domain 'target' has no labels."""
    cells = [(d, y, i) for d in domains for y, n in (*sizes.items(), (None, texts)) for i in range(n)]
    cells += [("target", None, i) for i in range(30)]
    return Corpus([f"{d} {y} {i}" for d, y, i in cells], [y for _, y, _ in cells], [d for d, _, _ in cells])


def folds_of(corpus: Corpus, split: Split, n_folds: int = 3, seed: int = 0) -> tuple[list[Split], list[Split]]:
    """The folds of a cross-validation, before and after priors are shifted."""
    folds = cross_validation(corpus, split, n_folds, seed)
    return folds, shift_hidden_priors(corpus, split, folds, seed)


def counts(corpus: Corpus, rows: np.ndarray, domain: str) -> Counter[str | None]:
    return Counter(corpus.labels[rows[corpus.domains[rows] == domain]])


def odds(counted: Counter[str | None], name: str) -> float:
    return counted[name] / (counted.total() - counted[name])


def factors(corpus: Corpus, before: list[Split], after: list[Split], split: Split, name: str) -> dict[str, list[float]]:
    """By how much the odds of a class differ, in the text and in the test rows of each hidden domain."""
    return {
        domain: [
            odds(counts(corpus, getattr(shifted, part), domain), name)
            / odds(counts(corpus, getattr(fold, part), domain), name)
            for part in ("unlabelled", "test")
        ]
        for fold, shifted in zip(before, after, strict=True)
        for domain in hidden_domains(corpus, split, fold)
    }


@pytest.mark.parametrize("sizes", [{"x": 120, "y": 120}, {"x": 240, "y": 60}], ids=["even", "uneven"])
def test_hidden_domains_take_turns(sizes: dict[str, int]):
    corpus = corpus_of(sizes)
    split = holdout_split(corpus)
    found = factors(corpus, *folds_of(corpus, split), split, "y")
    # The first fold hides a and d, the second b and e, the third c and f.
    expected = {"a": 1, "d": 4, "b": 1 / 4, "e": 1, "c": 1 / 4, "f": 4}
    assert list(found) == list(expected)
    for domain, factor in expected.items():
        assert found[domain] == pytest.approx([factor] * 2, rel=0.15), domain


def test_of_several_classes_one_after_the_other_has_its_turn():
    domains = [f"domain {i}" for i in range(9)]
    corpus = corpus_of({"x": 360, "y": 270, "z": 180}, domains)
    split = holdout_split(corpus)
    before, after = folds_of(corpus, split, n_folds=9)  # each hides one domain
    turns = [(name, factor) for name in "zyx" for factor in (1, 4, 1 / 4)]
    for fold, shifted, domain, (name, factor) in zip(before, after, domains, turns, strict=True):
        found = factors(corpus, [fold], [shifted], split, name)
        assert list(found) == [domain]
        assert found[domain] == pytest.approx([factor] * 2, rel=0.2), domain
        first, second = (other for other in "xyz" if other != name)
        then, now = (counts(corpus, one.unlabelled, domain) for one in (fold, shifted))
        assert now[first] / now[second] == pytest.approx(then[first] / then[second], rel=0.1), "others in proportion"


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(st.sampled_from("xyz"), st.integers(1, 60), min_size=1),
    st.integers(1, 4),
    st.integers(0, 20),
    st.integers(2, 4),
    st.integers(0, 9),
)
def test_rows_are_only_dropped_and_only_of_hidden_domains(
    sizes: dict[str, int], n_domains: int, texts: int, n_folds: int, seed: int
):
    corpus = corpus_of(sizes, SOURCES[:n_domains], texts)
    split = holdout_split(corpus, seed=seed)
    before, after = folds_of(corpus, split, n_folds, seed)
    for fold, shifted in zip(before, after, strict=True):
        assert shifted.train.tolist() == fold.train.tolist() and shifted.dev.tolist() == fold.dev.tolist()
        hidden = hidden_domains(corpus, split, fold)
        assert hidden_domains(corpus, split, shifted) == hidden
        for part in PARTS:
            left = getattr(shifted, part)
            assert np.isin(left, getattr(fold, part)).all() and (np.diff(left) > 0).all()
            dropped = np.setdiff1d(getattr(fold, part), left)
            assert set(corpus.domains[dropped]) <= set(hidden)
            for name in set(corpus.domains[dropped]):
                # All classes are left, and enough rows, in both parts.
                for other in ("unlabelled", "test"):
                    now, then = (counts(corpus, getattr(one, other), name) for one in (shifted, fold))
                    assert now.total() >= 10 and set(now) == set(then) - {None}
        parts = np.concatenate([getattr(shifted, part) for part in PARTS])
        assert len(np.unique(parts)) == len(parts)
        assert not np.isin(parts, split.test).any()


def test_text_of_a_shifted_domain_that_never_had_labels_is_dropped():
    corpus = corpus_of({"x": 60, "y": 60}, texts=50)
    split = holdout_split(corpus)
    before, after = folds_of(corpus, split)
    for fold, shifted in zip(before, after, strict=True):
        for name in hidden_domains(corpus, split, fold):
            is_shifted = counts(corpus, shifted.test, name) != counts(corpus, fold.test, name)
            without = [counts(corpus, one.unlabelled, name)[None] for one in (fold, shifted)]
            assert without[0] > 0 and without[1] == (0 if is_shifted else without[0])
        assert counts(corpus, shifted.unlabelled, "target") == counts(corpus, fold.unlabelled, "target")


def test_labels_of_text_that_training_must_not_know_are_not_used():
    corpus = corpus_of({"x": 90, "y": 90})
    split = holdout_split(corpus)
    text = split.train[(corpus.labels[split.train] == "y") & (np.arange(len(split.train)) % 3 == 0)]
    split = Split(np.setdiff1d(split.train, text), split.dev, split.test, text, rule="by hand")
    _, after = folds_of(corpus, split)
    labels = corpus.labels.copy()
    labels[text] = labels[split.test] = "x"
    changed = Corpus(corpus.documents, labels, corpus.domains)
    folds = cross_validation(corpus, split, 3)
    again = shift_hidden_priors(changed, split, folds)
    for one, other in zip(after, again, strict=True):
        assert all(getattr(one, part).tolist() == getattr(other, part).tolist() for part in PARTS)


@pytest.mark.parametrize(
    "sizes", [{"x": 16, "y": 16}, {"x": 200, "y": 2}, {"x": 200}], ids=["few rows", "rare class", "one class"]
)
def test_a_domain_of_which_too_little_would_be_left_stays_as_it_is(sizes: dict[str, int]):
    corpus = corpus_of(sizes)
    before, after = folds_of(corpus, holdout_split(corpus), n_folds=5)
    assert all(fold is shifted for fold, shifted in zip(before, after, strict=True))


def test_without_hidden_labels_nothing_is_shifted():
    corpus = corpus_of({"x": 60, "y": 60})
    corpus = corpus.select(corpus.domains != "target")
    before, after = folds_of(corpus, holdout_split(corpus))
    assert all(fold is shifted for fold, shifted in zip(before, after, strict=True))


def test_the_seed_draws():
    corpus = corpus_of({"x": 60, "y": 60})
    split = holdout_split(corpus)
    folds = cross_validation(corpus, split, 3)

    def drawn(seed: int) -> list[list[int]]:
        return [fold.test.tolist() for fold in shift_hidden_priors(corpus, split, folds, seed)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
