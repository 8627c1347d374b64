"""Bags of n-grams against independent implementations, their state, and the text of every error."""

from __future__ import annotations

import json
import re
import tracemalloc
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer

from multidomain.errors import ConfigError, DataError, ModelError
from multidomain.features.base import restored, stored
from multidomain.features.ngrams import NgramFeaturizer
from multidomain.features.token_rules import TOKEN_PATTERN, normalise

TEXTS = [
    "A good book. A very good book!",
    "Not a good film, don't watch it",
    "not a bad film: do n't miss it",
    "",
    "good, good, good ... zebra",
    "the camera's battery won't last?",
]
NEW_TEXTS = ["a good, good film", "", "unknown words only", "Don't miss the battery!"]
VECTORS = sp.csr_matrix([[1.0, 0.0, 3.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1.0]])


def naive_counts(texts: list[str], new_texts: list[str], n: int, longest: int) -> tuple[list[str], np.ndarray]:
    def ngrams(text: str) -> Counter[str]:
        words = re.findall(TOKEN_PATTERN, normalise(text))
        return Counter(
            " ".join(words[i : i + size]) for size in range(1, longest + 1) for i in range(len(words) - size + 1)
        )

    total = sum((ngrams(text) for text in texts), Counter())
    vocabulary = sorted(total, key=lambda ngram: (-total[ngram], ngram))[:n]
    return vocabulary, np.array([[ngrams(text)[ngram] for ngram in vocabulary] for text in new_texts])


@pytest.mark.parametrize("max_features", [1, 7, 10_000])
@pytest.mark.parametrize("longest", [1, 2, 3])
def test_counts_equal_a_naive_counter(max_features: int, longest: int) -> None:
    features = NgramFeaturizer(max_features=max_features, ngram_range=(1, longest)).fit(TEXTS)
    vocabulary, expected = naive_counts(TEXTS, NEW_TEXTS, max_features, longest)
    assert features.vocabulary == vocabulary
    assert features.n_inputs == len(vocabulary)
    assert_array_equal(features.transform(NEW_TEXTS).toarray(), expected)


def test_counts_equal_scikit_learn_without_unigrams() -> None:
    features = NgramFeaturizer(ngram_range=(2, 3)).fit(TEXTS)
    reference = CountVectorizer(
        preprocessor=normalise,
        token_pattern=TOKEN_PATTERN,
        lowercase=False,
        ngram_range=(2, 3),
        vocabulary=features.vocabulary,
    )
    assert_array_equal(features.transform(TEXTS).toarray(), reference.fit_transform(TEXTS).toarray())


def test_rare_ngrams_are_dropped_before_the_most_frequent_are_kept() -> None:
    features = NgramFeaturizer(max_features=3, ngram_range=(1, 1), min_df=2).fit(["b b b b", "a c", "a d c", "d", "c"])
    assert features.vocabulary == ["c", "a", "d"]
    assert NgramFeaturizer.from_state(*features.to_state()).min_df == 2
    with pytest.raises(
        DataError, match=r"No n-gram found in 2 texts: .* shorter than 1 token, or none is in 2 of them\."
    ):
        NgramFeaturizer(min_df=2).fit(["a", "b"])


def test_tfidf_equals_scikit_learn() -> None:
    features = NgramFeaturizer("tfidf", max_features=12).fit(TEXTS)
    reference = TfidfVectorizer(
        preprocessor=normalise,
        token_pattern=TOKEN_PATTERN,
        lowercase=False,
        ngram_range=(1, 2),
        vocabulary=features.vocabulary,
        sublinear_tf=True,
    ).fit(TEXTS)
    assert_allclose(features.transform(NEW_TEXTS).toarray(), reference.transform(NEW_TEXTS).toarray(), rtol=1e-6)


def test_tfidf_of_given_counts_equals_scikit_learn() -> None:
    reference = TfidfTransformer(sublinear_tf=True).fit(VECTORS)
    features = NgramFeaturizer("tfidf").fit(VECTORS)
    assert_allclose(features.transform(VECTORS).toarray(), reference.transform(VECTORS).toarray(), rtol=1e-6)


@pytest.mark.parametrize("weighting", ["counts", "raw"])
def test_given_vectors_pass_unchanged_and_stay_the_callers(weighting: str) -> None:
    features = NgramFeaturizer(weighting).fit(VECTORS)
    rows = features.transform(VECTORS)
    assert features.vocabulary is None and features.n_inputs == 3
    assert_array_equal(rows.toarray(), VECTORS.toarray())
    rows.data[:] = 0
    assert VECTORS.sum() == 7


def test_raw_vectors_may_be_negative() -> None:
    vectors = sp.csr_matrix([[-1.5, 0.0], [0.25, 2.0]])
    assert_array_equal(NgramFeaturizer("raw").fit(vectors).transform(vectors).toarray(), vectors.toarray())


@pytest.mark.parametrize("weighting", ["counts", "tfidf", "raw"])
@pytest.mark.parametrize("kind", [sp.csc_matrix, sp.coo_array, sp.csr_array])
def test_rows_are_canonical(weighting: str, kind: type) -> None:
    unsorted = sp.csr_matrix((np.array([1.0, 2.0, 3.0, 0.0]), [2, 0, 2, 1], [0, 4]), shape=(1, 3))
    rows = NgramFeaturizer(weighting).fit(kind(VECTORS)).transform(unsorted)
    assert isinstance(rows, sp.csr_matrix)
    assert rows.dtype == np.float32
    assert rows.indices.tolist() == [0, 2]
    assert rows.indptr.tolist() == [0, 2]


@pytest.mark.parametrize("weighting", ["counts", "tfidf"])
def test_text_rows_are_canonical(weighting: str) -> None:
    rows = NgramFeaturizer(weighting).fit(TEXTS).transform(TEXTS)
    assert isinstance(rows, sp.csr_matrix)
    assert rows.dtype == np.float32
    assert rows.indices.dtype in (np.int32, np.int64)
    assert all((np.diff(rows.indices[a:b]) > 0).all() for a, b in zip(rows.indptr, rows.indptr[1:], strict=False))


@pytest.mark.parametrize("weighting", ["counts", "tfidf"])
def test_empty_texts_are_empty_rows(weighting: str) -> None:
    features = NgramFeaturizer(weighting).fit(TEXTS)
    rows = features.transform(["", "...", "xyzzy"])
    assert rows.shape == (3, features.n_inputs) and rows.nnz == 0
    assert features.transform([]).shape == (0, features.n_inputs)


@pytest.mark.parametrize("weighting", ["counts", "tfidf"])
@pytest.mark.parametrize("kind", ["texts", "vectors"])
def test_memory_stays_far_below_a_dense_matrix(weighting: str, kind: str) -> None:
    if kind == "vectors":
        columns = np.arange(1_000_000) * 7 % 5_000  # 5 in each of 200,000 rows
        documents = sp.csr_matrix((np.ones(1_000_000), columns, np.arange(0, 1_000_001, 5)))
    else:
        documents = [f"word{i % 7} rare{i} rare{i + 1}" for i in range(10_000)]
    features = NgramFeaturizer(weighting, max_features=20_000)
    features.fit(documents).transform(documents)  # compiles, if need be
    tracemalloc.start()
    try:
        rows = features.fit(documents).transform(documents)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    dense = 4 * rows.shape[0] * rows.shape[1]
    assert peak < dense / 20


def test_lists_and_arrays_of_text_are_the_same() -> None:
    as_list = NgramFeaturizer().fit(TEXTS)
    for texts in (np.array(TEXTS, dtype=object), np.array(TEXTS)):
        features = NgramFeaturizer().fit(texts)
        assert features.vocabulary == as_list.vocabulary
        assert_array_equal(features.transform(texts).toarray(), as_list.transform(TEXTS).toarray())


def test_order_of_documents_does_not_change_the_vocabulary() -> None:
    forwards, backwards = NgramFeaturizer(max_features=5).fit(TEXTS), NgramFeaturizer(max_features=5).fit(TEXTS[::-1])
    assert forwards.vocabulary == backwards.vocabulary


def test_refitting_forgets_what_was_fitted() -> None:
    features = NgramFeaturizer("tfidf").fit(TEXTS).fit(VECTORS)
    fresh = NgramFeaturizer("tfidf").fit(VECTORS)
    assert features.vocabulary is None
    assert_array_equal(features.transform(VECTORS).toarray(), fresh.transform(VECTORS).toarray())


@pytest.mark.parametrize(
    ("weighting", "documents", "new_documents"),
    [
        ("counts", TEXTS, NEW_TEXTS),
        ("tfidf", TEXTS, NEW_TEXTS),
        ("counts", VECTORS, VECTORS[::-1]),
        ("tfidf", VECTORS, VECTORS[::-1]),
        ("raw", VECTORS, -VECTORS),
    ],
)
def test_state_survives_json_and_transforms_bit_for_bit(weighting, documents, new_documents) -> None:
    features = NgramFeaturizer(weighting, max_features=9, ngram_range=(1, 3)).fit(documents)
    settings, arrays = features.to_state()
    copy = NgramFeaturizer.from_state(json.loads(json.dumps(settings)), {k: v.copy() for k, v in arrays.items()})
    a, b = features.transform(new_documents), copy.transform(new_documents)
    assert a.shape == b.shape
    for part in ("data", "indices", "indptr"):
        assert_array_equal(getattr(a, part), getattr(b, part))
    assert copy.vocabulary == features.vocabulary
    assert copy.to_state()[0] == settings


@pytest.mark.parametrize(
    ("settings", "arrays", "said"),
    [
        (
            {},
            {"vocabulary": lambda utf8: utf8[: np.flatnonzero(utf8 == 10)[0] + 1]},
            r"widths .*'vocabulary': 1.* equal",
        ),
        ({}, {"idf": lambda idf: idf[:2]}, "'idf': 2"),
        ({}, {"idf": lambda idf: idf[:, None]}, "'idf': -1"),
        ({}, {"hashes": lambda hashes: hashes[:-1]}, r"widths .*'hashes': "),
        ({}, {"hashes": lambda hashes: hashes[::-1].copy()}, "the hashes are not those of the vocabulary"),
        ({}, {"hashes": lambda hashes: hashes.astype(np.int32)}, "of another type"),
        ({}, {"hashes": lambda hashes: hashes[:, None]}, "of another type"),
        ({}, {"vocabulary": lambda utf8: utf8[:-1]}, "does not end in a line break"),
        ({}, {"vocabulary": lambda utf8: utf8.astype(np.int64)}, "of another type"),
        ({}, {"vocabulary": lambda utf8: np.r_[np.uint8(255), utf8]}, "UnicodeDecodeError"),
        ({}, {"vocabulary": lambda utf8: np.r_[np.uint8(32), utf8]}, "an n-gram has an empty token"),
        ({}, {"vocabulary": lambda utf8: np.r_[utf8, np.uint8(10)]}, "an n-gram has an empty token"),
        ({}, {"vocabulary": None}, "KeyError: 'vocabulary'"),
        ({"ngram_range": [1, 1]}, {}, "an n-gram has 2 tokens, and the longest may have 1"),
        ({"token_rules": "2"}, {}, "trained on tokens by the rules '2'. This version knows '1'. Install"),
        ({"token_rules": 1}, {}, "token_rules"),
        ({"n_inputs": 7}, {}, "'n_inputs': 7"),
    ],
)
def test_altered_state_is_refused(settings: dict, arrays: dict, said: str) -> None:
    state, kept = stored(NgramFeaturizer("tfidf").fit(TEXTS))
    changed = {name: change(kept[name]) for name, change in arrays.items() if change}
    kept = {name: array for name, array in kept.items() if name not in arrays} | changed
    with pytest.raises(ModelError, match=said):
        restored(state | settings, kept)


@pytest.mark.parametrize("hash_", [0, None])
def test_hashes_that_name_no_column_are_refused(hash_: int | None) -> None:
    """Beyond the first ones, which are compared with the n-grams themselves."""
    state, arrays = stored(NgramFeaturizer().fit([" ".join(f"word{i}" for i in range(100))]))
    arrays["hashes"][-1] = arrays["hashes"][-2] if hash_ is None else hash_
    with pytest.raises(ModelError, match="two n-grams are the same or have the same hash, or one has the hash 0"):
        restored(state, arrays)


def test_states_of_earlier_versions_are_read() -> None:
    """They hold the n-grams in JSON, and no name of token rules."""
    features = NgramFeaturizer("tfidf", ngram_range=(1, 3)).fit(TEXTS)
    state, arrays = stored(features)
    del state["token_rules"]
    old = state | {"vocabulary": list(features.vocabulary)}
    copy = restored(old, {"idf": arrays["idf"]})
    assert copy.vocabulary == features.vocabulary
    assert_array_equal(copy.transform(NEW_TEXTS).toarray(), features.transform(NEW_TEXTS).toarray())
    assert_array_equal(stored(copy)[1]["hashes"], arrays["hashes"])
    for ngrams, said in [
        (["good\nbook"], "a string has a line break"),
        (["good  book"], "an n-gram has an empty token"),
        (["good", "good"], "two n-grams are the same"),
        (["a b c d"], "an n-gram has 4 tokens, and the longest may have 3"),
    ]:
        with pytest.raises(ModelError, match=said):
            restored(old | {"vocabulary": ngrams, "weighting": "counts", "n_inputs": len(ngrams)}, {})
    vectors, none = stored(NgramFeaturizer().fit(VECTORS))
    del vectors["token_rules"]
    assert restored(vectors | {"vocabulary": None}, none).transform(VECTORS).sum() == 7


def test_use_before_fit() -> None:
    with pytest.raises(NotFittedError, match=r"not fitted: call fit\(\) first"):
        NgramFeaturizer().transform(TEXTS)
    with pytest.raises(NotFittedError, match=r"not fitted"):
        NgramFeaturizer().to_state()


def test_every_bad_setting_is_reported_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        NgramFeaturizer("tf-idf", max_features=0, ngram_range=(2, 1), min_df=0)  # type: ignore[arg-type]
    assert str(error.value) == (
        "Unknown weighting 'tf-idf'. Did you mean 'tfidf'? Valid: 'counts', 'tfidf', 'raw'. "
        "max_features must be at least 1, got 0. min_df must be at least 1, got 0. "
        "ngram_range must be (shortest, longest), from 1 to 1000, got (2, 1)."
    )


def test_raw_refuses_text() -> None:
    expected = r"'raw' is for vectors, and the documents are texts\. Use weighting='counts' or weighting='tfidf'\."
    with pytest.raises(ConfigError, match=expected):
        NgramFeaturizer("raw").fit(TEXTS)


@pytest.mark.parametrize("moment", ["fit", "transform"])
@pytest.mark.parametrize(
    ("weighting", "value", "message"),
    [
        (
            "counts",
            -2.0,
            r"'counts' expects counts of 0 or more; row 1 \(counted from 0\) has -2 in column 2\. If",
        ),
        (
            "tfidf",
            -1.0,
            r"'tfidf' expects counts: 0, or 1 and more; row 1 .* has -1 in column 2\. .*use .*'raw'",
        ),
        ("tfidf", 0.25, r"expects counts: 0, or 1 and more; row 1 .* has 0.25 in column 2"),
        ("counts", np.nan, r"row 1 .* has nan in column 2"),
        ("raw", np.inf, r"'raw' expects finite numbers; row 1 .* has inf in column 2\.$"),
    ],
)
def test_bad_values_name_the_row(moment: str, weighting: str, value: float, message: str) -> None:
    bad = sp.csr_matrix([[1.0, 2.0, 0.0], [0.0, 0.0, value], [0.0, 0.0, value]])
    with pytest.raises(DataError, match=message):
        if moment == "fit":
            NgramFeaturizer(weighting).fit(bad)
        else:
            NgramFeaturizer(weighting).fit(VECTORS).transform(bad)


def test_vectors_of_another_width() -> None:
    features = NgramFeaturizer().fit(sp.csr_matrix((2, 5000)))
    message = "expects 5,000 columns, got 4,000: the vocabulary does not match. Count the n-grams with"
    with pytest.raises(DataError, match=message):
        features.transform(sp.csr_matrix((1, 4000)))


def test_vectors_without_columns() -> None:
    with pytest.raises(DataError, match="at least 1 column, got 0 columns"):
        NgramFeaturizer().fit(sp.csr_matrix((2, 0)))


def test_text_for_vectors_and_the_reverse() -> None:
    with pytest.raises(DataError, match=r"Expected vectors of 3 columns, as in training; got texts\. Give a sparse"):
        NgramFeaturizer().fit(VECTORS).transform(TEXTS)
    with pytest.raises(DataError, match=r"Expected texts, as in training; got vectors of 3 columns\. Give a list"):
        NgramFeaturizer().fit(TEXTS).transform(VECTORS)


@pytest.mark.parametrize(
    ("texts", "ngram_range", "message"),
    [
        (
            ["", " ... "],
            (1, 2),
            r"No n-gram found in 2 texts: .* shorter than 1 token\. Check the text column \(text_column=\.\.\.\)\.",
        ),
        (["one", "two"], (2, 2), r"No n-gram found in 2 texts: .* shorter than 2 tokens\."),
        ([], (1, 2), r"No n-gram found in 0 texts"),
    ],
)
def test_no_ngrams_at_all(texts: list[str], ngram_range: tuple[int, int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        NgramFeaturizer(ngram_range=ngram_range).fit(texts)


@pytest.mark.parametrize(("value", "kind"), [(None, "NoneType"), (float("nan"), "float"), (b"x", "bytes")])
def test_what_is_no_text_names_the_row(value: object, kind: str) -> None:
    with pytest.raises(DataError, match=rf"row 1 \(counted from 0\) is of type {kind}\. Drop the row, or"):
        NgramFeaturizer().fit(["good", value])  # type: ignore[list-item]


def test_a_single_text_is_no_list_of_texts() -> None:
    with pytest.raises(DataError, match=r"got a single text\. Put it into a list"):
        NgramFeaturizer().fit("good book")
