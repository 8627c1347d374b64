"""Which rows to label next: uncertain ones that stand for others, divided between domains by what they may gain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from multidomain.data.corpus import Corpus
from multidomain.data.named.registry import load_corpus
from multidomain.data.splits import default_split
from multidomain.errors import DataError
from multidomain.model.model import Model
from multidomain.runs.label_next import choose, divided, expected_gain, in_proportion, label_next, uncertainty
from multidomain.training.settings import RunSettings
from multidomain.training.train import train_model

DEMO = load_corpus("demo").thinned(30)


def without_labels(corpus: Corpus, *domains: str) -> Corpus:
    return replace(corpus, labels=np.where(np.isin(corpus.domains.astype(str), domains), None, corpus.labels))


@pytest.fixture(scope="module")
def model() -> Model:
    corpus = without_labels(DEMO, "shoes")
    return train_model(corpus, default_split(corpus), RunSettings(method="fa-lr", method_settings={"C": 1})).model


# --- within a domain --------------------------------------------------------------------------------------


def test_uncertainty_is_one_minus_the_margin_of_the_two_best():
    p = np.array([[0.2, 0.8], [0.5, 0.5], [1.0, 0.0]])
    np.testing.assert_allclose(uncertainty(p), [0.4, 1.0, 0.0])
    np.testing.assert_allclose(uncertainty(np.array([[0.5, 0.3, 0.2]])), [0.8])


def test_a_near_duplicate_of_a_chosen_row_waits():
    x = csr_matrix(np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=np.float32))
    p = np.array([[0.5, 0.5], [0.5, 0.5], [0.6, 0.4], [0.9, 0.1]])
    assert choose(p, x, 3).tolist() == [0, 2, 3]


def test_a_row_that_is_like_a_labelled_one_waits():
    x = csr_matrix(np.eye(3, dtype=np.float32))
    p = np.array([[0.5, 0.5], [0.6, 0.4], [0.7, 0.3]])
    assert choose(p, x, 2).tolist() == [0, 1]
    assert choose(p, x, 2, labelled=x[:1]).tolist() == [1, 2]


def test_an_uncertain_row_that_stands_for_many_goes_first():
    many = np.array([[0.8, 0.6, 0], [0.8, 0, 0.6], [1, 0, 0]], dtype=np.float32)
    x = csr_matrix(np.vstack([np.hstack([many, np.zeros((3, 1))]), [[0, 0, 0, 1]]]).astype(np.float32))
    p = np.array([[0.6, 0.4]] * 3 + [[0.5, 0.5]])
    assert choose(p, x, 2).tolist() == [2, 3]


def test_the_choice_is_that_of_a_naive_loop():
    random = np.random.default_rng(0)
    x = random.random((12, 5))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    p = random.dirichlet([1, 1, 1], 12)
    labelled, rest = x[:2], x[2:]

    def covered(chosen: list[int]) -> float:
        u, known = uncertainty(p[2:]), [*labelled, *rest[chosen]]
        return sum(u[i] * max(row @ other for other in known) for i, row in enumerate(rest))

    expected: list[int] = []
    for _ in range(6):
        expected.append(max((i for i in range(10) if i not in expected), key=lambda i: covered([*expected, i])))
    assert choose(p[2:], csr_matrix(rest), 6, csr_matrix(labelled)).tolist() == expected


def test_no_more_rows_are_chosen_than_there_are():
    assert sorted(choose(np.full((3, 2), 0.5), csr_matrix((3, 4)), 9).tolist()) == [0, 1, 2]


# --- between domains --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "gains", "sizes", "expected"),
    [
        (10, [1, 1, 2], [50, 50, 50], [3, 2, 5]),
        (10, [1, 0, 0], [4, 3, 50], [4, 3, 3]),
        (100, [1, 5], [3, 4], [3, 4]),
        (1, [1, 2], [9, 9], [0, 1]),
    ],
)
def test_rows_are_divided_in_proportion_as_far_as_there_are_any(
    n: int, gains: list[int], sizes: list[int], expected: list[int]
):
    assert divided(n, np.array(gains) + 1e-9, np.array(sizes)).tolist() == expected


def test_a_domain_gains_more_with_more_and_less_certain_rows_and_fewer_labels():
    half, sure = np.array([[0.5, 0.5]]), np.array([[0.9, 0.1]])
    assert expected_gain(half, 0) == pytest.approx(1)
    assert expected_gain(np.vstack([half, half]), 0) == pytest.approx(2)
    assert expected_gain(sure, 0) == pytest.approx(0.2)
    assert expected_gain(half, 100) == expected_gain(half, None) == pytest.approx(0.5)


def test_every_beginning_of_the_order_has_its_share_of_each_domain():
    order = in_proportion(np.array([6, 3, 0, 3]))
    assert sorted(order.tolist()) == list(range(12))
    for end in (4, 8):
        assert [(order[:end] < 6).sum(), ((order[:end] >= 6) & (order[:end] < 9)).sum()] == [end // 2, end // 4]
    assert [i for i in order if i < 6] == [0, 1, 2, 3, 4, 5]


# --- of a corpus, by a model ------------------------------------------------------------------------------


def test_rows_with_labels_duplicates_and_held_out_rows_are_skipped(model: Model):
    rows = without_labels(DEMO, "shoes", "books")
    parts = np.full(len(rows), "train", dtype=object)
    shoes, books = (np.flatnonzero(rows.domains == name) for name in ("shoes", "books"))
    parts[shoes[:3]] = ["dev", "test", "unlabelled"]
    documents, labels = rows.documents.copy(), rows.labels.copy()
    documents[books[1]] = documents[books[0]].upper() + "!"
    documents[books[3]], labels[books[2]] = documents[books[2]], "positive"
    found = label_next(model, replace(rows, documents=documents, labels=labels, parts=parts), len(rows))
    skipped = {*shoes[:2], books[1], books[2], books[3]}
    assert set(found.rows) == {*shoes, *books} - skipped
    assert len(found.rows) == len(set(found.rows))


def test_domains_without_labels_get_more(model: Model):
    found = label_next(model, without_labels(DEMO, "shoes", "books"), 20, labels={"books": 400})
    shares = {share.domain: share for share in found.domains}
    assert (shares["books"].labels, shares["shoes"].labels) == (400, 0)
    assert shares["shoes"].chosen > 2 * shares["books"].chosen > 0
    assert shares["shoes"].gain + shares["books"].gain == pytest.approx(1)
    chosen = DEMO.domains[found.rows]
    assert [(chosen == name).sum() for name in shares] == [share.chosen for share in shares.values()]


def test_the_number_of_labels_is_that_of_the_corpus_unless_given(model: Model):
    some = without_labels(DEMO, "shoes", "books")
    labels = some.labels.copy()
    labels[np.flatnonzero(some.domains == "kitchen")[:5]] = None
    shares = {share.domain: share.labels for share in label_next(model, replace(some, labels=labels), 9).domains}
    assert shares == {"books": None, "kitchen": 55, "shoes": 0}


def test_predictions_are_those_of_the_model_and_the_choice_is_the_same_again(model: Model):
    rows = without_labels(DEMO, "shoes")
    found, again = (label_next(model, rows, 7) for _ in range(2))
    np.testing.assert_array_equal(found.rows, again.rows)
    p = model.predict_proba(DEMO.documents[found.rows], ["shoes"] * 7)
    np.testing.assert_allclose(found.confidence, p.max(axis=1), rtol=1e-5)
    assert found.predictions.tolist() == [model.classes[k] for k in p.argmax(axis=1)]
    assert found.domains[0].confidence > found.confidence.mean(), "what is chosen is less certain than the rest"


def test_one_domain_alone_and_one_that_is_not_there(model: Model):
    rows = without_labels(DEMO, "shoes", "books")
    assert set(DEMO.domains[label_next(model, rows, 5, domain="books").rows]) == {"books"}
    with pytest.raises(DataError, match=r"has no domain 'boks'\. Did you mean 'books'"):
        label_next(model, rows, 5, domain="boks")


def test_a_domain_that_training_did_not_see_is_noted(model: Model):
    rows = without_labels(DEMO, "shoes")
    new = replace(rows, domains=np.where(rows.domains == "shoes", "hats", rows.domains))
    found = label_next(model, new, 5)
    assert [note.kind for note in found.notes] == ["unknown-domain"]
    assert [(share.domain, share.labels) for share in found.domains] == [("hats", 0)]


def test_nothing_to_label_is_an_error(model: Model):
    with pytest.raises(DataError, match=r"has no row to label: 240 rows, all with a label or held out\. Give a file"):
        label_next(model, DEMO, 5)
    with pytest.raises(DataError, match="has no row of the domain 'books' to label"):
        label_next(model, without_labels(DEMO, "shoes"), 5, domain="books")
