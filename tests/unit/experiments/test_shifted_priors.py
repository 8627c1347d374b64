"""The protocols of shifted priors and few labels against their definitions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_corpora import DOMAINS, small, small_amazon
from test_protocols import differing, seen, with_other_labels

from multidomain.data.corpus import Corpus
from multidomain.data.named.registry import load_corpus
from multidomain.data.splits import Split
from multidomain.errors import ConfigError
from multidomain.experiments.shifted_priors import (
    PREVALENCES,
    SHIFTED,
    AmazonShiftedPriors,
    FduShiftedPriors,
    FewLabels,
    ShiftedPriors,
    ThreeClasses,
    resampled,
)

AMAZON = AmazonShiftedPriors()
LABELS = AmazonShiftedPriors(target_texts=("train",), target_labels=(0, 2, 5, "all"))
FDU = FduShiftedPriors(targets=("books", "dvd"))
EACH = [(AMAZON, small_amazon()), (LABELS, small_amazon()), (FDU, small("given-parts"))]
each = pytest.mark.parametrize(("protocol", "corpus"), EACH, ids=["amazon", "labels", "fdu"])


def splits(protocol: ShiftedPriors, corpus: Corpus, **wanted: Any) -> list[tuple[dict[str, Any], Split]]:
    specs = protocol.split_specs(reads_text=True)
    chosen = [spec for spec in specs if all(spec[name] == value for name, value in wanted.items())]
    return [(spec, protocol.split(corpus, spec)) for spec in chosen]


def positives(corpus: Corpus, rows: np.ndarray) -> int:
    return sum(corpus.labels[row] == "positive" for row in rows)


def of_target(corpus: Corpus, rows: np.ndarray, target: str) -> np.ndarray:
    return np.array([row for row in rows if corpus.domains[row] == target], dtype=int)


def texts(corpus: Corpus, rows: np.ndarray) -> list[tuple[float, ...]]:
    return [tuple(row) for row in corpus.documents[rows].toarray().tolist()]


# --- specs --------------------------------------------------------------------------------------------


def test_runs_are_all_combinations_one_draw_after_the_other() -> None:
    specs = AMAZON.split_specs(reads_text=True)
    assert len({tuple(spec.items()) for spec in specs}) == len(specs) == 3 * 2 * 4 * 5
    assert len(LABELS.split_specs(reads_text=True)) == 3 * 4 * 4 * 5
    assert [spec["draw"] for spec in specs] == sorted(spec["draw"] for spec in specs)
    assert list(specs[0]) == ["target", "prevalence", "draw", "target_text", "target_labels"]
    assert {spec["target_text"] for spec in AMAZON.split_specs(reads_text=False)} == {"train"}


@pytest.mark.parametrize("name", SHIFTED)
def test_there_is_no_other_split(name: str) -> None:
    protocol = SHIFTED[name]
    message = r"draws its rows itself, by the number of the draw; it cannot be re-split\. Leave out the split seed\."
    with pytest.raises(ConfigError, match=message):
        protocol.split_specs(reads_text=True, split_seed=0)
    with pytest.raises(ConfigError, match=message):
        protocol.split(small_amazon(), {**protocol.split_specs(reads_text=True)[0], "split_seed": 0})


# --- shifted priors -----------------------------------------------------------------------------------


@each
def test_sizes_and_prevalences_are_exact(protocol: ShiftedPriors, corpus: Corpus) -> None:
    sizes: dict[tuple[Any, ...], set[tuple[int, int]]] = {}
    for spec, split in splits(protocol, corpus):
        text = np.concatenate([split.unlabelled, of_target(corpus, split.train, spec["target"])])
        for rows in (split.test, text):
            assert set(corpus.domains[rows]) == {spec["target"]}
            assert len(set(rows.tolist())) == len(rows)
            assert positives(corpus, rows) == round(len(rows) * spec["prevalence"] / 100)
        place = (spec["target"], spec["target_text"], spec["draw"] if protocol is FDU else None)
        sizes.setdefault(place, set()).add((len(split.test), len(text)))
    assert all(len(found) == 1 for found in sizes.values()), "the prevalences differ in the prior alone"
    assert min(size for found in sizes.values() for pair in found for size in pair) >= 7


@pytest.mark.parametrize(("n_positive", "n_negative"), [(9, 9), (40, 17), (18, 200), (50, 49)])
def test_as_many_rows_are_drawn_as_all_prevalences_allow(n_positive: int, n_negative: int) -> None:
    labels = np.array(["positive"] * n_positive + ["negative"] * n_negative)
    corpus = Corpus(["x"] * len(labels), labels, np.full(len(labels), "books"))
    rarest = min(n_positive, n_negative)
    for prevalence in PREVALENCES:
        drawn = resampled(corpus, np.arange(len(labels)), prevalence, np.random.default_rng(0))
        assert 0.9 * len(drawn) <= rarest < 0.9 * (len(drawn) + 1)
        assert positives(corpus, drawn) == round(prevalence * len(drawn) / 100)


@each
def test_no_test_row_is_read_unless_transductive(protocol: ShiftedPriors, corpus: Corpus) -> None:
    for spec, split in splits(protocol, corpus):
        test = set(split.test.tolist())
        assert not test & set(split.dev.tolist())
        assert split.transductive == (spec["target_text"] == "test")
        if not split.transductive:
            assert not test & {*split.train.tolist(), *split.unlabelled.tolist()}
        else:
            text = {*split.unlabelled.tolist(), *of_target(corpus, split.train, spec["target"]).tolist()}
            assert text == test


@each
def test_sources_are_the_same_whatever_the_target_s_prior(protocol: ShiftedPriors, corpus: Corpus) -> None:
    for spec, split in splits(protocol, corpus, draw=2):
        target = spec["target"]
        if protocol is not FDU:
            of_sources = [i for i, d in enumerate(corpus.domains) if d != target and corpus.parts[i] == "train"]
            dev = [i for i in of_sources if corpus.folds[i] == 4]
        else:
            of_sources = [
                i for i, d in enumerate(corpus.domains) if d != target and corpus.parts[i] in ("train", "dev")
            ]
            dev = [i for i in of_sources if corpus.parts[i] == "dev"]
        assert split.dev.tolist() == dev
        assert sorted(row for row in split.train if corpus.domains[row] != target) == sorted({*of_sources} - {*dev})
        assert split.selection == "source-dev"


@each
def test_no_label_of_the_target_is_read(protocol: ShiftedPriors, corpus: Corpus) -> None:
    for spec, split in splits(protocol, corpus, draw=1, target_labels=0, prevalence=25):
        hidden = np.flatnonzero((corpus.domains == spec["target"]) & corpus.labelled)
        assert not np.isin(hidden, split.train).any()
        data = seen(corpus, split)
        assert differing(data, seen(with_other_labels(corpus, hidden), split)) == set()
        assert differing(data, seen(with_other_labels(corpus, split.train[:1]), split)) == {"labelled"}
        assert spec["target"] not in {data.task.domains[d] for d in data.labelled.d}


def test_so_many_labels_of_the_target_are_read() -> None:
    corpus = small_amazon()
    for draw in (1, 2):
        found = splits(LABELS, corpus, target="dvd", prevalence=75, draw=draw)
        with_labels = {
            spec["target_labels"]: {*of_target(corpus, split.train, "dvd").tolist()} for spec, split in found
        }
        pool = with_labels["all"]
        assert [len(with_labels[n]) for n in (0, 2, 5)] == [0, 2, 5] and len(pool) > 5
        assert with_labels[2] < with_labels[5] < pool, "more labels, not others"
        for spec, split in found:
            assert {*split.unlabelled.tolist()} == pool - with_labels[spec["target_labels"]]


@each
def test_a_draw_has_the_same_test_rows_whatever_else_differs(protocol: ShiftedPriors, corpus: Corpus) -> None:
    tests: dict[tuple[Any, ...], set[tuple[int, ...]]] = {}
    for spec, split in splits(protocol, corpus):
        tests.setdefault((spec["target"], spec["prevalence"], spec["draw"]), set()).add(tuple(split.test.tolist()))
    assert all(len(found) == 1 for found in tests.values())
    for target in protocol.targets:  # so few rows that a draw may repeat another at one prevalence, not at all of them
        draws = [[tests[target, prevalence, draw] for prevalence in PREVALENCES] for draw in (1, 2, 3)]
        assert all(draws[a] != draws[b] for a, b in ((0, 1), (0, 2), (1, 2))), "draws differ"


@each
def test_draws_differ_in_their_text_and_repeat_themselves(protocol: ShiftedPriors, corpus: Corpus) -> None:
    wanted = {"target": "dvd", "prevalence": 25, "target_text": "train", "target_labels": 0}
    first, again = (splits(protocol, corpus, **wanted) for _ in range(2))
    rows = [[split.unlabelled.tolist() for _, split in found] for found in (first, again)]
    assert rows[0] == rows[1] and len({tuple(of_draw) for of_draw in rows[0]}) == 3


def test_amazon_draws_text_from_the_first_file_and_tests_on_the_second() -> None:
    corpus = small_amazon()
    assert corpus.parts is not None
    for _, split in splits(AMAZON, corpus, draw=1, target_text="train"):
        assert set(corpus.parts[split.unlabelled]) <= {"train"} and set(corpus.parts[split.test]) == {"unlabelled"}


def repeating() -> Corpus:
    """Each text of the small corpus stands about twice, in any part of its domain."""
    corpus = small("given-parts")
    rng, rows = np.random.default_rng(6), np.arange(len(corpus))
    for domain in corpus.domain_names:
        for label in corpus.class_names:
            alike = np.flatnonzero((corpus.domains == domain) & (corpus.labels == label))
            rows[alike] = rng.choice(alike, len(alike))
    return replace(corpus, documents=corpus.documents[rows])


def test_fdu_keeps_duplicates_of_the_target_in_one_half() -> None:
    corpus = repeating()
    assert corpus.parts is not None
    for target in FDU.targets:
        rows = np.flatnonzero((corpus.domains == target) & corpus.labelled)
        assert len(set(texts(corpus, rows))) < 0.9 * len(rows), "else the corpus could not tell"
        for draw in (1, 2, 3):
            found = [split for _, split in splits(FDU, corpus, target=target, draw=draw, target_text="train")]
            text, test = (
                np.unique(np.concatenate([getattr(split, part) for split in found])) for part in ("unlabelled", "test")
            )
            assert not set(texts(corpus, text)) & set(texts(corpus, test))
            assert len(text) + len(test) > 0.7 * len(rows)
            assert {"train", "dev", "test"} <= set(corpus.parts[np.concatenate([text, test])])


def test_fdu_reads_its_four_domains_only() -> None:
    corpus = small("given-parts")
    alone = FduShiftedPriors(targets=("books",))
    for _, split in splits(alone, corpus, draw=1):
        assert len(split.train) == len(split.dev) == 0 and set(corpus.domains[split.test]) == {"books"}


# --- few labels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [2, 5, 10])
def test_few_labels_has_so_many_in_every_domain_of_both_classes(labels: int) -> None:
    corpus, protocol = small_amazon(), FewLabels(labels=(2, 5, 10))
    assert corpus.parts is not None
    for draw in (1, 2, 3):
        split = protocol.split(corpus, {"labels": labels, "draw": draw})
        for domain in DOMAINS:
            rows = of_target(corpus, split.train, domain)
            assert len(rows) == labels == len(set(rows.tolist()))
            assert positives(corpus, rows) == labels // 2
        first = {i for i, part in enumerate(corpus.parts) if part == "train"}
        assert {*split.train.tolist()} < first and len(split.dev) == 0
        assert {*split.unlabelled.tolist()} == first - {*split.train.tolist()}
        assert {*split.test.tolist()} == set(range(len(corpus))) - first


def test_few_labels_draws_differ_and_more_labels_hold_the_fewer() -> None:
    corpus, protocol = small_amazon(), FewLabels(labels=(2, 10))
    assert [list(spec.values()) for spec in protocol.split_specs(reads_text=True)] == [
        [n, draw] for draw in (1, 2, 3) for n in (2, 10)
    ]
    rows = {
        (n, draw): {*protocol.split(corpus, {"labels": n, "draw": draw}).train.tolist()}
        for n in (2, 10)
        for draw in (1, 2, 3)
    }
    assert all(rows[2, draw] < rows[10, draw] for draw in (1, 2, 3))
    assert len({frozenset(rows[10, draw]) for draw in (1, 2, 3)}) == 3


# --- three classes ------------------------------------------------------------------------------------


def vader_like() -> Corpus:
    """Two of the domains of vader-3, and one more; pairs of rows are equal texts."""
    random = np.random.default_rng(0)
    domains = np.repeat(["movies", "nyt", "tweets"], 60)
    labels = random.choice(["negative", "neutral", "positive"], 180, p=[0.5, 0.3, 0.2]).astype(object)
    labels[1::2] = labels[::2]
    texts = np.array([f"text {row // 2}" for row in range(180)], dtype=object)
    return Corpus(texts, labels, domains, name="vader-3")


def test_three_classes_halves_the_target_and_keeps_its_prior() -> None:
    corpus = vader_like()
    for spec, split in splits(ThreeClasses(target_texts=("train",)), corpus):
        target = spec["target"]
        assert set(corpus.domains[split.test]) == set(corpus.domains[split.unlabelled]) == {target}
        assert len(split.test) + len(split.unlabelled) == 60 and abs(len(split.test) - 30) <= 3
        assert target not in set(corpus.domains[np.concatenate([split.train, split.dev])])
        assert len(split.train) + len(split.dev) == 120 and len(split.dev) == pytest.approx(12, abs=4)
        parts = [set(corpus.documents[rows]) for rows in (split.train, split.dev, split.test, split.unlabelled)]
        assert sum(map(len, parts)) == len(set.union(*parts))  # duplicates are together
        assert "class prior as it is" in split.rule
    drawn = {tuple(split.test) for _, split in splits(ThreeClasses(target_texts=("train",)), corpus, target="nyt")}
    assert len(drawn) == 3


# --- the real data ------------------------------------------------------------------------------------


@pytest.mark.benchmark_data
@pytest.mark.parametrize("name", ["priors", "priors-fdu"])
def test_sizes_on_the_real_data(benchmark_data: Path, name: str) -> None:
    protocol = SHIFTED[name]
    assert isinstance(protocol, ShiftedPriors)
    corpus = load_corpus(protocol.corpus)
    tests: dict[str, set[int]] = {}
    for spec, split in splits(protocol, corpus, draw=1, target_text="train"):
        assert not np.isin(split.test, np.concatenate([split.train, split.dev, split.unlabelled])).any()
        for rows in (split.test, split.unlabelled):
            assert positives(corpus, rows) == round(len(rows) * spec["prevalence"] / 100)
        tests.setdefault(spec["target"], set()).add(len(split.test))
        assert len(split.unlabelled) == 1_111 if name == "priors" else len(split.unlabelled) >= 500
    assert all(len(sizes) == 1 for sizes in tests.values())
    if name == "priors":
        assert tests["books"] == {2_445}


@pytest.mark.benchmark_data
def test_few_labels_on_the_real_data(benchmark_data: Path) -> None:
    corpus, protocol = load_corpus("amazon"), SHIFTED["few-labels"]
    for spec in protocol.split_specs(reads_text=True):
        split = protocol.split(corpus, spec)
        counts = {domain: of_target(corpus, split.train, domain) for domain in DOMAINS}
        assert {len(rows) for rows in counts.values()} == {spec["labels"]}
        assert {abs(2 * positives(corpus, rows) - spec["labels"]) for rows in counts.values()} == {spec["labels"] % 2}
