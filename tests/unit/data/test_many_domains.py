"""Corpora of many domains: grouped counts and cuts equal naive loops over domains, and the time does not explode."""

from __future__ import annotations

import time

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from multidomain.data import stratify
from multidomain.data.checks import DomainSummary, check_trainable, summarise
from multidomain.data.corpus import Corpus
from multidomain.data.prior_shift import shift_hidden_priors
from multidomain.data.splits import Duplicates, Split, cross_validation, holdout_split


def corpus_of(n_domains: int, n_rows: int, *, n_texts: int, seed: int = 0) -> Corpus:
    random = np.random.default_rng(seed)
    domains = [f"domain {d}" for d in [*range(n_domains), *random.integers(0, n_domains, n_rows - n_domains)]]
    labels = [(None, "bad", "good", "good")[i] for i in random.integers(0, 4, n_rows)]
    return Corpus([f"text {i}" for i in random.integers(0, n_texts, n_rows)], labels, domains)


def naive_summary(corpus: Corpus, domain: str) -> DomainSummary:
    rows = [i for i in range(len(corpus)) if corpus.domains[i] == domain]
    labels_of: dict[str, set[str]] = {}
    for i in rows:
        labels_of.setdefault(corpus.documents[i], set()).update({corpus.labels[i]} - {None})
    labels = [corpus.labels[i] for i in rows]
    return DomainSummary(
        rows=len(rows),
        labelled=len(labels) - labels.count(None),
        per_class={name: labels.count(name) for name in corpus.class_names},
        repeated_texts=len(rows) - len(labels_of),
        conflicting_texts=sum(len(labels) > 1 for labels in labels_of.values()),
    )


@given(st.integers(1, 12), st.integers(12, 60), st.integers(1, 60), st.integers(0, 99))
def test_a_summary_counts_as_a_loop_over_rows_does(n_domains: int, n_rows: int, n_texts: int, seed: int):
    corpus = corpus_of(n_domains, n_rows, n_texts=n_texts, seed=seed)
    summary = summarise(corpus)
    assert list(summary.domains) == list(corpus.domain_names)
    assert summary.domains == {name: naive_summary(corpus, name) for name in corpus.domain_names}


def test_a_summary_of_a_corpus_without_labels():
    (only,) = summarise(Corpus(["a", "a"], [None, None], ["d", "d"])).domains.values()
    assert only == DomainSummary(2, 0, {}, repeated_texts=1, conflicting_texts=0)


@given(st.integers(2, 9), st.integers(12, 60), st.integers(1, 60), st.integers(0, 99))
def test_duplicates_and_clean_rows_are_those_that_a_loop_over_rows_finds(
    n_domains: int, n_rows: int, n_texts: int, seed: int
):
    corpus = corpus_of(n_domains, n_rows, n_texts=n_texts, seed=seed)
    train, dev, test, unlabelled = np.array_split(np.random.default_rng(seed).permutation(n_rows), 4)
    split = Split(train, dev, test, unlabelled, rule="by hand")

    def has_twin(i: int, rows: np.ndarray) -> bool:
        same = (corpus.documents[j] == corpus.documents[i] and corpus.domains[j] == corpus.domains[i] for j in rows)
        return any(same)

    learnt, seen = np.concatenate([train, dev]), np.concatenate([train, dev, unlabelled])
    expected = {
        name: Duplicates(len(here), sum(has_twin(i, learnt) for i in here), sum(has_twin(i, seen) for i in here))
        for name in corpus.domain_names
        for here in [[i for i in test if corpus.domains[i] == name]]
    }
    assert list(split.duplicates(corpus).items()) == list(expected.items())
    texts = set(corpus.documents[seen])
    assert split.clean_test(corpus).tolist() == [i for i in test if corpus.documents[i] not in texts]


def cut_one_by_one(component: np.ndarray, stratum: np.ndarray, shares: np.ndarray, seed: int) -> np.ndarray:
    """Cut every stratum in its turn, whether or not it depends on others."""
    _, component = np.unique(component, return_inverse=True)
    component = np.random.default_rng(seed).permutation(component.max() + 1)[component]
    part = np.full(component.max() + 1, -1)
    members = [np.unique(component[stratum == s], return_counts=True) for s in range(stratum.max() + 1)]
    for s in np.argsort([len(names) for names, _ in members], kind="stable"):
        names, sizes = members[s]
        order = np.lexsort((names, -sizes))
        stratify._deal(names[order], sizes[order], part, shares[s])
    return part[component]


@settings(max_examples=200)
@given(st.integers(1, 80), st.integers(1, 120), st.integers(1, 20), st.integers(2, 5), st.integers(0, 9), st.booleans())
def test_strata_of_single_rows_are_cut_as_one_by_one(
    n: int, n_texts: int, n_strata: int, n_parts: int, seed: int, alike: bool
):
    random = np.random.default_rng([n, n_texts, n_strata, n_parts, seed])
    component, stratum = random.integers(0, n_texts, n), random.integers(0, n_strata, n)
    shares = random.dirichlet(np.ones(n_parts), size=stratum.max() + 1)
    shares[random.random(shares.shape) < 0.2] = 0
    shares[:, 0] += 1 - shares.sum(axis=1)
    if alike:
        shares[:] = shares[0]
    found = stratify.cut(component, stratum, shares[0] if alike else shares, np.random.default_rng(seed))
    assert found.tolist() == cut_one_by_one(component, stratum, shares, seed).tolist()


def test_domains_with_one_class_are_noted_together_if_they_are_many():
    corpus = Corpus([f"t{i}" for i in range(22)], ["x", "y", *["x"] * 20], ["a", "a", *(f"d{i}" for i in range(20))])
    (note,) = check_trainable(corpus, Split(range(22), [], [], [], rule="by hand"))
    assert note.kind == "one-class"
    assert note.message.startswith("In each of 20 domains all labelled training rows have the same class ('d0', 'd1', ")
    assert "and 8 more" in note.message


def test_the_work_grows_with_the_rows_and_not_with_rows_times_domains():
    def seconds(n_domains: int) -> float:
        corpus = corpus_of(n_domains, 10 * n_domains, n_texts=9 * n_domains)
        corpus.text_keys()
        began = time.process_time()
        split = holdout_split(corpus)
        hidden = split.hide_labels(corpus, corpus.domain_names[::5])
        summarise(corpus)
        check_trainable(corpus, hidden)
        hidden.duplicates(corpus)
        hidden.clean_test(corpus)
        shift_hidden_priors(corpus, hidden, cross_validation(corpus, hidden, 3))
        return time.process_time() - began

    seconds(100)
    few = seconds(500)
    assert seconds(4000) < 32 * few  # rows times domains would be 64 times as many
