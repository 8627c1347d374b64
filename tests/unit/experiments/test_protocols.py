"""The protocols of Tables 1 and 2 against their definitions, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from multidomain.data.corpus import Corpus
from multidomain.data.named.registry import load_corpus
from multidomain.data.splits import Split
from multidomain.experiments.protocols import PROTOCOLS, FiveFold, UnlabelledTarget
from multidomain.features.base import Documents
from multidomain.features.ngrams import NgramFeaturizer
from multidomain.methods.data import Examples, TrainingData
from multidomain.training.data import EncodedRows, training_data

DOMAINS = ("books", "dvd", "electronics", "kitchen")
LABELLED, FURTHER = 20, (9, 7, 11, 8)  # rows of a domain's first file, and of each domain's second
PARTS = ("train", "dev", "test", "unlabelled")
TARGET_SPECS = [
    {"target": target, "selection": selection, "target_text": text}
    for target in DOMAINS
    for selection in ("source-dev", "oracle")
    for text in ("train", "test")
]


def described(spec: dict[str, Any]) -> str:
    return "-".join(map(str, spec.values()))


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """Shaped like Amazon: a file with folds and one without for each domain, labels everywhere, texts that repeat."""
    rng = np.random.default_rng(5)
    domains, parts, folds = [], [], []
    for name, further in zip(DOMAINS, FURTHER, strict=True):
        domains += [name] * (LABELLED + further)
        parts += ["train"] * LABELLED + ["unlabelled"] * further
        folds += [*rng.permutation(np.arange(LABELLED) // (LABELLED // 5)), *[-1] * further]
    counts = rng.integers(0, 2, (len(domains), 7))  # 128 possible texts: many stand twice, in all parts and domains
    counts[:, 6] = 1  # none is empty
    labels = rng.choice(["negative", "positive"], len(domains))
    return Corpus(sp.csr_matrix(counts), labels, domains, parts=parts, folds=np.array(folds), name="small")


def rows_where(corpus: Corpus, chosen: Callable[[str, bool, int], bool]) -> set[int]:
    """Rows by domain, whether they are of the domain's first file, and fold: one row at a time."""
    assert corpus.parts is not None and corpus.folds is not None
    columns = zip(corpus.domains, corpus.parts == "train", corpus.folds, strict=True)
    return {i for i, column in enumerate(columns) if chosen(*column)}


def assert_rows(split: Split, **expected: Iterable[int]) -> None:
    for part in PARTS:
        rows = getattr(split, part)
        assert len(rows) == len(set(rows.tolist())), part
        assert set(rows.tolist()) == set(expected[part]), part


def with_other_labels(corpus: Corpus, rows: Iterable[int]) -> Corpus:
    other = {"negative": "positive", "positive": "negative"}
    labels = corpus.labels.copy()
    for row in rows:
        labels[row] = other[labels[row]]
    return replace(corpus, labels=labels)


def seen(corpus: Corpus, split: Split) -> TrainingData:
    """All that a method is given."""
    text = corpus.documents[np.concatenate([split.train, split.unlabelled])]
    features, rows = NgramFeaturizer("tfidf").fit(text), np.arange(len(corpus))
    encoded = EncodedRows(features, Documents(corpus.documents), rows, len(corpus))
    return training_data(corpus, split, features, encoded)


def same_rows(a: Examples, b: Examples) -> bool:
    same_x = a.x.shape == b.x.shape and (a.x != b.x).nnz == 0
    labels = [np.array([]) if rows.y is None else rows.y for rows in (a, b)]
    return bool(same_x and np.array_equal(a.d, b.d) and np.array_equal(*labels) and (a.y is None) == (b.y is None))


def differing(a: TrainingData, b: TrainingData) -> set[str]:
    found = {name for name in ("labelled", "text", "dev") if not same_rows(getattr(a, name), getattr(b, name))}
    found |= {name for name in ("task", "classes", "words") if getattr(a, name) != getattr(b, name)}
    return found if np.array_equal(a.text_has_label, b.text_has_label) else {*found, "text_has_label"}


def naive_clean(corpus: Corpus, split: Split) -> list[int]:
    texts = [tuple(row) for row in corpus.documents.toarray()]
    in_test = set(split.test.tolist())
    others = [i for part in ("train", "dev", "unlabelled") for i in getattr(split, part) if i not in in_test]
    seen_elsewhere = {texts[i] for i in others}
    return [i for i in split.test if texts[i] not in seen_elsewhere]


# --- Table 1 ------------------------------------------------------------------------------------------


def test_five_fold_has_a_run_for_each_fold() -> None:
    for reads_text in (True, False):
        assert FiveFold().split_specs(reads_text=reads_text) == [{"fold": fold} for fold in range(5)]
    assert PROTOCOLS["five-fold"] == FiveFold()


@pytest.mark.parametrize("fold", range(5))
def test_five_fold_rows(corpus: Corpus, fold: int) -> None:
    held_out = {fold, (fold + 1) % 5}
    split = FiveFold().split(corpus, {"fold": fold})
    assert_rows(
        split,
        dev=rows_where(corpus, lambda domain, first, f: first and f == fold),
        test=rows_where(corpus, lambda domain, first, f: first and f == (0 if fold == 4 else fold + 1)),
        train=rows_where(corpus, lambda domain, first, f: first and f not in held_out),
        unlabelled=rows_where(corpus, lambda domain, first, f: not first),
    )
    assert split.selection == "source-dev" and not split.transductive
    assert len(split.test) == len(split.dev) == 4 * LABELLED // 5


def test_five_fold_tests_each_labelled_row_once(corpus: Corpus) -> None:
    tested = [row for spec in FiveFold().split_specs(reads_text=True) for row in FiveFold().split(corpus, spec).test]
    assert sorted(tested) == sorted(rows_where(corpus, lambda domain, first, fold: first))


def test_five_fold_training_sees_no_label_of_test_rows_or_second_files(corpus: Corpus) -> None:
    split = FiveFold().split(corpus, {"fold": 2})
    hidden = {*split.test.tolist(), *split.unlabelled.tolist()}
    assert differing(seen(corpus, split), seen(with_other_labels(corpus, hidden), split)) == set()
    assert differing(seen(corpus, split), seen(with_other_labels(corpus, split.train[:1]), split)) == {"labelled"}
    assert differing(seen(corpus, split), seen(with_other_labels(corpus, split.dev[:1]), split)) == {"dev"}


def test_five_fold_text_is_that_of_training_folds_and_second_files(corpus: Corpus) -> None:
    data = seen(corpus, FiveFold().split(corpus, {"fold": 0}))
    assert len(data.text) == 4 * LABELLED * 3 // 5 + sum(FURTHER) and data.text.y is None
    assert data.text_has_label.sum() == len(data.labelled) == 4 * LABELLED * 3 // 5


# --- Table 2 ------------------------------------------------------------------------------------------


def test_unlabelled_target_has_all_rules_and_texts() -> None:
    protocol = PROTOCOLS["unlabelled-target"]
    split_specs = [tuple(sorted(spec.items())) for spec in protocol.split_specs(reads_text=True)]
    assert len(split_specs) == len(set(split_specs))
    assert set(split_specs) == {tuple(sorted(spec.items())) for spec in TARGET_SPECS}


def test_systems_that_read_no_unlabelled_text_run_once() -> None:
    split_specs = UnlabelledTarget().split_specs(reads_text=False)
    assert {spec["target_text"] for spec in split_specs} == {"train"}
    chosen = [(spec["target"], spec["selection"]) for spec in split_specs]
    assert sorted(chosen) == sorted((target, rule) for target in DOMAINS for rule in ("source-dev", "oracle"))


@pytest.mark.parametrize("spec", TARGET_SPECS, ids=described)
def test_unlabelled_target_rows(corpus: Corpus, spec: dict[str, Any]) -> None:
    target, oracle, transductive = spec["target"], spec["selection"] == "oracle", spec["target_text"] == "test"
    first_file = rows_where(corpus, lambda domain, first, fold: domain == target and first)
    second_file = rows_where(corpus, lambda domain, first, fold: domain == target and not first)
    of_sources = rows_where(corpus, lambda domain, first, fold: domain != target and first)
    last_of_sources = rows_where(corpus, lambda domain, first, fold: domain != target and fold == 4)
    split = UnlabelledTarget().split(corpus, spec)
    assert_rows(
        split,
        train=of_sources if oracle else of_sources - last_of_sources,
        dev=first_file if oracle else last_of_sources,
        test=second_file,
        unlabelled=second_file if transductive else first_file,
    )
    assert (split.selection, split.transductive) == (spec["selection"], transductive)
    assert all(str(value) in split.rule for value in spec.values())


@pytest.mark.parametrize("spec", TARGET_SPECS, ids=described)
def test_what_training_sees_of_the_target(corpus: Corpus, spec: dict[str, Any]) -> None:
    split = UnlabelledTarget().split(corpus, spec)
    data = seen(corpus, split)
    target = DOMAINS.index(spec["target"])
    assert data.task.domains == DOMAINS
    assert data.task.labelled == tuple(d for d in range(4) if d != target)
    assert not (data.labelled.d == target).any()
    first_file = rows_where(corpus, lambda domain, first, fold: domain == spec["target"] and first)
    assert (data.text.d == target).sum() == (LABELLED if spec["target_text"] == "train" else FURTHER[target])
    relabelled = with_other_labels(corpus, {*first_file, *split.test.tolist()})
    if spec["selection"] == "source-dev":
        assert differing(data, seen(relabelled, split)) == set()
        assert not (data.dev.d == target).any()
    else:
        assert differing(data, seen(relabelled, split)) == {"dev"}
        assert (data.dev.d == target).all() and len(data.dev) == LABELLED
        assert differing(data, seen(with_other_labels(corpus, split.test), split)) == set()
        if split.transductive:  # the rule decides what may be seen, not only the rows
            assert len(seen(corpus, replace(split, selection="source-dev")).dev) == 0


@pytest.mark.parametrize("spec", [{"fold": 3}, *TARGET_SPECS[:8]], ids=described)
def test_clean_rows_are_in_no_other_part(corpus: Corpus, spec: dict[str, Any]) -> None:
    protocol = FiveFold() if "fold" in spec else UnlabelledTarget()
    split = protocol.split(corpus, spec)
    clean = naive_clean(corpus, split)
    assert 0 < len(clean) < len(split.test)  # else the corpus cannot tell a wrong rule from a right one
    assert split.clean_test(corpus).tolist() == clean


def test_transductive_test_rows_are_clean_though_they_are_text() -> None:
    """A text that stands twice in the test file and nowhere else is clean; one of a source's training rows is not."""
    texts = np.array([[1, 0, 0], [2, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 5], [1, 0, 0]])
    domains, parts, folds = ["dvd"] * 2 + ["books"] * 4, ["train"] * 2 + ["unlabelled"] * 4, [0, 4, -1, -1, -1, -1]
    small = Corpus(sp.csr_matrix(texts), ["negative"] * 6, domains, parts=parts, folds=np.array(folds))
    spec = {"target": "books", "selection": "source-dev", "target_text": "test"}
    split = UnlabelledTarget().split(small, spec)
    assert split.unlabelled.tolist() == split.test.tolist() == [2, 3, 4, 5]
    assert split.clean_test(small).tolist() == [2, 3, 4]


# --- the real data ------------------------------------------------------------------------------------


@pytest.mark.benchmark_data
def test_sizes_on_amazon(benchmark_data: Path) -> None:
    amazon = load_corpus("amazon")
    test_file = {"books": 4_465, "dvd": 3_586, "electronics": 5_681, "kitchen": 5_945}
    for spec in FiveFold().split_specs(reads_text=True):
        split = FiveFold().split(amazon, spec)
        assert [len(getattr(split, part)) for part in PARTS] == [4_800, 1_600, 1_600, sum(test_file.values())]
    for spec in TARGET_SPECS:
        split = UnlabelledTarget().split(amazon, spec)
        target, oracle = spec["target"], spec["selection"] == "oracle"
        sizes = dict.fromkeys(DOMAINS, (2_000, 0) if oracle else (1_600, 400)) | {target: (0, 2_000 * oracle)}
        for name, (train, dev) in sizes.items():
            assert [(amazon.domains[rows] == name).sum() for rows in (split.train, split.dev)] == [train, dev]
        text = 2_000 if spec["target_text"] == "train" else test_file[target]
        assert [len(split.test), len(split.unlabelled)] == [test_file[target], text]


@pytest.mark.benchmark_data
def test_source_dev_is_the_last_400_in_the_published_order(benchmark_data: Path) -> None:
    amazon = load_corpus("amazon")
    order = [int(number) for number in (benchmark_data / "amazon" / "shuffle.txt").read_text().split()]
    split = UnlabelledTarget().split(amazon, {"target": "dvd", "selection": "source-dev", "target_text": "train"})
    assert amazon.parts is not None
    for name in ("books", "electronics", "kitchen"):
        of_file = np.flatnonzero((amazon.domains == name) & (amazon.parts == "train"))
        dev = split.dev[amazon.domains[split.dev] == name]
        assert dev.tolist() == sorted(of_file[order[-400:]].tolist())
