"""Re-split data: duplicates together, and the sizes and balance that are promised."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multidomain.data.corpus import Corpus
from multidomain.data.resplit import _evenly, resplit_folds, resplit_parts

HELD_OUT = ("dev", "test")


@st.composite
def corpora(draw: st.DrawFn) -> Corpus:
    """Corpora whose texts repeat in all domains, classes, parts and folds."""
    n = draw(st.integers(5, 60))

    def column(values: list[str]) -> list[str]:
        return draw(st.lists(st.sampled_from(values), min_size=n, max_size=n))

    parts = column(["train", "train", "dev", "test", "unlabelled"])
    texts = column([f"text {i}" for i in range(draw(st.integers(1, 60)))])
    return Corpus(texts, column(["x", "y"]), column(["a", "b"]), parts=parts, folds=np.arange(n) % 5)


def mostly_single(sizes: dict[str, int], classes: dict[str, float], seed: int) -> Corpus:
    """Two domains in which one text in five stands two or three times, in both domains too, always of one class."""
    rng = np.random.default_rng(seed)
    rows = []
    for domain in ("a", "b"):
        for part, n in sizes.items():
            for label in rng.choice(list(classes), n, p=list(classes.values())):
                repeated = f"{label} {rng.integers(n // 8)}"
                text = repeated if rng.random() < 0.2 else f"{domain} {part} {len(rows)}"
                rows.append((text, label, domain, part))
    texts, labels, domains, parts = zip(*rows, strict=True)
    return Corpus(texts, labels, domains, parts=parts, folds=np.arange(len(rows)) % 5)


def counts(corpus: Corpus, *columns: str) -> Counter[tuple[object, ...]]:
    return Counter(zip(*(getattr(corpus, name) for name in columns), strict=True))


@settings(max_examples=100, deadline=None)
@given(corpora(), st.integers(0, 50))
def test_equal_texts_are_never_parted(corpus: Corpus, seed: int) -> None:
    parts = resplit_parts(corpus, HELD_OUT, "train", np.random.default_rng(seed)).parts
    folds = resplit_folds(corpus, np.random.default_rng(seed)).folds
    assert corpus.parts is not None and parts is not None and folds is not None
    unlabelled = corpus.parts == "unlabelled"
    assert ((parts == "unlabelled") == unlabelled).all() and ((folds == -1) == unlabelled).all()
    for text in set(corpus.documents):
        here = (corpus.documents == text) & ~unlabelled
        assert len(set(parts[here])) <= 1 and len(set(folds[here])) <= 1


@pytest.mark.parametrize("seed", range(5))
def test_sizes_and_balance_hold_to_the_row(seed: int) -> None:
    sizes = {"train": 211, "dev": 40, "test": 80, "unlabelled": 30}
    corpus = mostly_single(sizes, {"x": 0.6, "y": 0.4}, seed)
    dealt = resplit_parts(corpus, HELD_OUT, "train", np.random.default_rng(seed))
    assert counts(dealt, "domains", "parts") == counts(corpus, "domains", "parts")
    found = counts(dealt, "domains", "parts", "labels")
    for domain in ("a", "b"):
        assert {found[domain, "dev", label] for label in "xy"} == {20}
        assert {found[domain, "test", label] for label in "xy"} == {40}


@pytest.mark.parametrize("seed", range(5))
def test_folds_are_of_one_size_and_share_every_class(seed: int) -> None:
    corpus = mostly_single({"train": 200, "unlabelled": 30}, {"x": 0.5, "y": 0.5}, seed)
    balanced = resplit_parts(corpus, ["train"], "unlabelled", np.random.default_rng(seed))
    found = counts(resplit_folds(balanced, np.random.default_rng(seed)), "domains", "labels", "folds")
    assert {n for (_, _, fold), n in found.items() if fold >= 0} == {20}


def test_all_else_of_the_corpus_stays() -> None:
    corpus = mostly_single({"train": 60, "test": 20}, {"x": 0.5, "y": 0.5}, 0)
    dealt = resplit_folds(resplit_parts(corpus, ["test"], "train", np.random.default_rng(1)), np.random.default_rng(2))
    for name in ("documents", "labels", "domains"):
        assert getattr(dealt, name) is getattr(corpus, name)
    assert dealt.parts is not None and corpus.parts is not None and (dealt.parts != corpus.parts).any()
    assert dealt.folds is not None and corpus.folds is not None and (dealt.folds != corpus.folds).any()


@given(st.lists(st.integers(0, 20), min_size=1, max_size=5), st.data())
def test_evenly_takes_the_same_of_each_kind_or_all_of_it(available: list[int], data: st.DataObject) -> None:
    n = data.draw(st.integers(0, sum(available)))
    taken = _evenly(n, np.array(available))
    assert taken.sum() == n
    for one, there in zip(taken, available, strict=True):
        assert 0 <= one <= there
        assert one == there or one >= taken.max() - 1
