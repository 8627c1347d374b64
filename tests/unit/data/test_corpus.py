"""The corpus object: checks, selection, joining, hashes and keys."""

import numpy as np
import pytest
import scipy.sparse as sp

from multidomain.data.corpus import Corpus, Provenance
from multidomain.data.dedup import letters_and_digits
from multidomain.data.values import corpus_from_rows
from multidomain.errors import DataError


def small(**changes) -> Corpus:
    fields = {
        "documents": ["Good one.", "bad one", "good, one!"],
        "labels": ["pos", "neg", None],
        "domains": ["b", "a", "b"],
    }
    return Corpus(**(fields | changes))


def test_names_masks_and_length():
    corpus = small()
    assert len(corpus) == 3
    assert corpus.is_text
    assert corpus.domain_names == ("b", "a")
    assert corpus.class_names == ("neg", "pos")
    assert corpus.labelled.tolist() == [True, True, False]
    assert corpus.documents.dtype == object


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": ["pos"]}, "has 3 documents but 1 labels"),
        ({"labels": ["pos", -1, None]}, r"row 2: labels must hold a str or None for each row, not -1 \(int\)"),
        ({"domains": ["a", None, "b"]}, "row 2: domains must hold a str"),
        ({"documents": ["a", 3, "b"]}, "row 2: documents must hold a str"),
        ({"parts": ["train", "tset", "dev"]}, "row 2: parts must hold one of 'train', 'dev', 'test', 'unlabelled'"),
    ],
)
def test_wrong_fields_are_named(changes, message):
    with pytest.raises(DataError, match=message):
        small(**changes)


def test_select_keeps_every_field_aligned():
    corpus = small(
        parts=["train", "dev", "test"],
        folds=[0, 1, 2],
        groups=["x", None, "y"],
        provenance=Provenance.of_file("f.csv", [2, 3, 9]),
    )
    for rows in (np.array([2, 0]), np.array([True, False, True])[[0, 1, 2]]):
        chosen = corpus.select(rows)
        expected = np.arange(3)[rows]
        assert chosen.labels.tolist() == corpus.labels[expected].tolist()
        assert chosen.folds.tolist() == expected.tolist()
        assert chosen.groups.tolist() == corpus.groups[expected].tolist()
        assert chosen.where(0) == corpus.where(expected[0])


def test_where_falls_back_to_the_row_number():
    assert small().where(1) == "row 2"
    assert small(provenance=Provenance.of_file("f.csv", [2, 3, 9])).where(2) == "f.csv, row 9"


def test_concat_joins_files_and_keeps_places():
    first = small(provenance=Provenance.of_file("one.csv", [2, 3, 4]), folds=[0, 1, 2])
    second = small(provenance=Provenance.of_file("two.csv", [5, 6, 7]), groups=["g", "g", None])
    joined = Corpus.concat([first, second, first])
    assert len(joined) == 9
    assert joined.where(0) == "one.csv, row 2"
    assert joined.where(4) == "two.csv, row 6"
    assert joined.where(8) == "one.csv, row 4"
    assert joined.folds.tolist() == [0, 1, 2, -1, -1, -1, 0, 1, 2]
    assert joined.groups.tolist() == [None] * 3 + ["g", "g", None] + [None] * 3


def test_concat_refuses_mixtures():
    vectors = Corpus(sp.csr_matrix(np.eye(3)), ["a", "b", None], ["d"] * 3, name="vectors")
    narrow = Corpus(sp.csr_matrix(np.ones((3, 2))), ["a", "b", None], ["d"] * 3, name="narrow")
    with pytest.raises(DataError, match="'corpus' holds texts and 'vectors' vectors"):
        Corpus.concat([small(), vectors])
    with pytest.raises(DataError, match="'vectors' has 3 columns and 'narrow' 2"):
        Corpus.concat([vectors, narrow])
    with pytest.raises(DataError, match="'b' says which rows are train, dev or test and 'a' does not"):
        Corpus.concat([small(name="a"), small(name="b", parts=["train"] * 3)])
    with pytest.raises(DataError, match="no corpus to join"):
        Corpus.concat([])
    assert Corpus.concat([vectors, vectors]).documents.shape == (6, 3)


def test_content_hash_is_pinned():
    # A change of this figure means that records of earlier runs no longer match their data.
    assert small().content_hash() == "96ad2c7cf74928e995ac3208c5e1d13def3de9b52ac42f38b8aab8ced25b238f"


@pytest.mark.parametrize(
    "changes",
    [
        {"documents": ["Good one.b", "ad one", "good, one!"]},
        {"labels": ["pos", "neg", ""]},
        {"domains": ["b", "b", "a"]},
        {"parts": ["train"] * 3},
    ],
)
def test_content_hash_sees_every_change(changes):
    assert small(**changes).content_hash() != small().content_hash()


def test_content_hash_of_vectors_does_not_depend_on_how_they_are_stored():
    dense = np.array([[0, 2, 1], [0, 0, 3]], dtype=np.float64)
    plain = Corpus(sp.csr_matrix(dense), [None, None], ["a", "a"])
    unsorted = sp.csr_matrix(
        (np.array([1.0, 2.0, 0.0, 3.0]), np.array([2, 1, 0, 2]), np.array([0, 2, 4])), shape=(2, 3)
    )
    assert Corpus(unsorted, [None, None], ["a", "a"]).content_hash() == plain.content_hash()
    wider = sp.csr_matrix((dense[dense > 0], dense.nonzero()), shape=(2, 4))
    assert Corpus(wider, [None, None], ["a", "a"]).content_hash() != plain.content_hash()
    assert plain.documents.dtype == np.float32


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("It's GREAT!", "its great", True),
        ("snake_case", "snakecase", True),
        ("Ünïcode – ok", "ünïcode ok", True),
        ("cafe\u0301", "caf\u00e9", True),
        ("good", "goood", False),
        ("👍", "👎", False),
        ("👍 ", "👍", True),
        ("", "!", False),
        ("half \ud83d", "half", True),
    ],
)
def test_text_keys_compare_letters_and_digits(one, other, equal):
    keys = corpus_from_rows(["x", "y"]).text_keys()
    assert keys[0] != keys[1]
    assert (letters_and_digits(one) == letters_and_digits(other)) is equal
    keys = Corpus([one, other], [None, None], ["a", "b"]).text_keys()
    assert (keys[0] == keys[1]) is np.bool_(equal)


def test_vector_keys_compare_rows():
    rows = sp.csr_matrix(np.array([[0, 1, 2], [0, 1, 2], [1, 0, 2], [0, 0, 0], [0, 0, 0]]))
    keys = Corpus(rows, [None] * 5, ["a"] * 5).text_keys()
    assert keys[0] == keys[1] != keys[2]
    assert keys[3] == keys[4] != keys[0]


def test_rows_without_labels_or_domains():
    corpus = corpus_from_rows(["a b", "c"])
    assert corpus.domain_names == ("all",)
    assert not corpus.labelled.any()


def test_rows_of_numbers_become_names():
    corpus = corpus_from_rows(["a", "b", "c", "d"], [1.0, float("nan"), None, 0.0], np.array([1, 2, 1, 2]))
    assert corpus.labels.tolist() == ["1", None, None, "0"]
    assert corpus.domain_names == ("1", "2")


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        (["a", float("nan"), None, "d"], r"2 rows have no text \(null, NaN or blank\): index 1; index 2\. Remove"),
        (["a", "b", "c", " "], "1 row has no text .*: index 3"),
        (["a", "b", 7, "c"], r"index 2: expected a text \(str\), got int: '7'"),
        ([f"{i}" for i in range(3)] + [b"x"], "index 3: expected a text .*, got bytes"),
    ],
)
def test_rows_with_bad_texts(documents, message):
    with pytest.raises(DataError, match=message):
        corpus_from_rows(documents, ["x"] * 4, ["d"] * 4)


def test_rows_with_bad_names():
    with pytest.raises(DataError, match=r"1 row without a domain, though others have one: index 1"):
        corpus_from_rows(["a", "b"], None, ["x", None])
    with pytest.raises(DataError, match=r"domain names 'Books' \(index 0\) and 'books ' \(index 2\) differ only"):
        corpus_from_rows(["a", "b", "c"], None, ["Books", "dvd", "books "])
    with pytest.raises(DataError, match=r"class names 'Good' \(index 0\) and 'good' \(index 1\)"):
        corpus_from_rows(["a", "b", "c"], ["Good", "good", None])


def test_nulls_of_other_libraries_are_missing():
    class NAType:
        """Stands for pandas.NA, which cannot be compared."""

        def __bool__(self):
            raise TypeError("boolean value of NA is ambiguous")

    assert corpus_from_rows(["a", "b"], ["x", NAType()]).labels.tolist() == ["x", None]
    with pytest.raises(DataError, match=r"1 row has no text .*: index 1"):
        corpus_from_rows(["a", NAType()])
