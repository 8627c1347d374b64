"""Tokens as numbers, and counts of their n-grams, against Python loops."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from multidomain.errors import DataError
from multidomain.features.base import Documents
from multidomain.features.concat import ConcatFeaturizer
from multidomain.features.ngram_counts import frequent_ngrams
from multidomain.features.ngram_state import hashes_of
from multidomain.features.ngram_table import NgramTable
from multidomain.features.ngrams import NgramFeaturizer
from multidomain.features.sequences import SequenceFeaturizer
from multidomain.features.tokens import TokenSequences, tokenise
from multidomain.features.vocabulary import Vocabulary

TEXTS = ["a good, GOOD book", "", "bad book", "...", "not a book !"]
WORDS = [["a", "good", "good", "book"], [], ["bad", "book"], [], ["not", "a", "book", "!"]]
RANGES = [(1, 1), (1, 2), (2, 3), (1, 3)]
LETTERS = "abcde"


def words_of(tokens: TokenSequences) -> list[list[str]]:
    return list(tokens.words())


def test_tokens_of_texts():
    tokens = tokenise(TEXTS)
    assert len(tokens) == 5
    assert words_of(tokens) == WORDS
    assert sorted(tokens.vocabulary) == sorted({word for words in WORDS for word in words})
    assert tokens.row_of_token.tolist() == [0] * 4 + [2] * 2 + [4] * 4
    assert (tokens.ids.dtype, tokens.offsets.dtype) == (np.int32, np.int64)


def test_arrays_of_texts_are_texts_and_all_else_stays_as_it_is():
    assert words_of(tokenise(np.array(TEXTS, dtype=object))) == WORDS
    tokens, vectors = tokenise(TEXTS), csr_matrix((2, 3))
    assert tokenise(tokens) is tokens
    assert tokenise(vectors) is vectors
    with pytest.raises(DataError, match="got a single text"):
        tokenise("a good book")
    with pytest.raises(DataError, match=r"row 1 \(counted from 0\) is of type NoneType"):
        tokenise(["a", None])


def test_no_texts_and_empty_texts():
    assert len(tokenise([])) == 0
    assert words_of(tokenise([])) == []
    assert words_of(tokenise(["", " "])) == [[], []]
    assert words_of(tokenise([])[np.array([], dtype=int)].truncated(3)) == []


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([0, 1, 2, 3, 4], id="all"),
        pytest.param([4, 2], id="another order"),
        pytest.param([0, 0, 2, 0], id="one several times"),
        pytest.param([1, 3], id="only empty ones"),
        pytest.param([1, 0, 3, 4, 1], id="empty ones between"),
        pytest.param([-1, 0], id="from the end"),
        pytest.param([], id="none"),
    ],
)
def test_rows_are_selected(rows: list[int]):
    tokens = tokenise(TEXTS)
    selected = tokens[np.array(rows, dtype=int)]
    assert words_of(selected) == [WORDS[i] for i in rows]
    assert words_of(selected[np.arange(len(rows))[::-1]]) == [WORDS[i] for i in rows[::-1]]
    assert words_of(tokens) == WORDS


def test_rows_are_selected_by_a_mask():
    chosen = np.array([True, False, False, True, True])
    assert words_of(tokenise(TEXTS)[chosen]) == [WORDS[0], WORDS[3], WORDS[4]]


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 99])
def test_truncated(length: int):
    tokens = tokenise(TEXTS)
    assert words_of(tokens.truncated(length)) == [words[:length] for words in WORDS]
    assert words_of(tokens[np.array([4, 1, 0])].truncated(length)) == [WORDS[i][:length] for i in (4, 1, 0)]
    assert tokens.truncated(None) is tokens


texts_of_letters = st.lists(st.lists(st.sampled_from(LETTERS), max_size=8), max_size=8)


@given(texts_of_letters, st.data())
def test_any_texts(texts: list[list[str]], data: st.DataObject):
    tokens = tokenise([" ".join(words) for words in texts])
    assert words_of(tokens) == texts
    rows = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=10)) if texts else []
    length = data.draw(st.integers(0, 9))
    selected = tokens[np.array(rows, dtype=int)]
    assert words_of(selected) == [texts[i] for i in rows]
    assert words_of(selected.truncated(length)) == [texts[i][:length] for i in rows]


def ngrams_of(words: list[str], ngram_range: tuple[int, int]) -> list[str]:
    shortest, longest = ngram_range
    lengths = range(shortest, longest + 1)
    return [" ".join(words[i : i + n]) for n in lengths for i in range(len(words)) if i + n <= len(words)]


def random_texts(seed: int, letters: str = LETTERS) -> list[list[str]]:
    random = np.random.default_rng(seed)
    return [list(random.choice(list(letters), size=random.integers(0, 12))) for _ in range(random.integers(0, 15))]


def tokens_of(texts: list[list[str]]) -> TokenSequences:
    return tokenise([" ".join(words) for words in texts])


def naive_most_frequent(texts: list[list[str]], ngram_range: tuple[int, int], most: int) -> list[str]:
    count = Counter(ngram for words in texts for ngram in ngrams_of(words, ngram_range))
    return sorted(count, key=lambda ngram: (-count[ngram], ngram))[:most]


@pytest.mark.parametrize("ngram_range", RANGES)
@pytest.mark.parametrize("most", [1, 5, 20, 1000])
def test_frequent_ngrams(ngram_range: tuple[int, int], most: int):
    for seed in range(25):
        texts = random_texts(seed)
        found, hashes = frequent_ngrams(tokens_of(texts), ngram_range, most)
        assert found == naive_most_frequent(texts, ngram_range, most)
        np.testing.assert_array_equal(hashes, hashes_of(found))


def table_of(vocabulary: list[str], longest: int) -> NgramTable:
    return NgramTable(hashes_of(Vocabulary.of(vocabulary)), longest)


def assert_counts(vocabulary: list[str], texts: list[list[str]], longest: int) -> None:
    """The columns of n-grams hold how often these occur, counted by loops, in canonical form."""
    found = table_of(vocabulary, longest).rows(tokens_of(texts))
    counts = [Counter(ngrams_of(words, (1, longest))) for words in texts]
    expected = np.array([[count[ngram] for ngram in vocabulary] for count in counts])
    assert found.shape == (len(texts), len(vocabulary))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.toarray(), expected.reshape(found.shape))
    assert found.nnz == np.count_nonzero(expected)
    assert found.has_sorted_indices


@pytest.mark.parametrize("ngram_range", RANGES)
def test_counts_are_those_of_loops(ngram_range: tuple[int, int]):
    """The vocabulary is of other texts: it has n-grams that do not occur, and texts have words that it has not."""
    for seed in range(50):
        fitted, counted = random_texts(seed, "abcd"), random_texts(1000 + seed, "bcdefg")
        for most in (3, 1000):
            vocabulary = naive_most_frequent(fitted, ngram_range, most)
            assert_counts(vocabulary, fitted, ngram_range[1])
            assert_counts(vocabulary, counted, ngram_range[1])


@given(texts_of_letters, texts_of_letters, st.data())
def test_counts_of_any_vocabulary(fitted: list[list[str]], counted: list[list[str]], data: st.DataObject):
    """In any order, and with n-grams whose beginnings are not in it."""
    everything = sorted({ngram for words in fitted for ngram in ngrams_of(words, (1, 4))})
    vocabulary = data.draw(st.lists(st.sampled_from(everything), unique=True, max_size=20)) if everything else []
    assert_counts(vocabulary, counted, 4)
    assert_counts(vocabulary, fitted, 4)


def test_ngrams_do_not_reach_from_one_text_into_the_next():
    assert_counts(["a b", "b a", "a b a"], [["a"], ["b"], ["a", "b"], [], ["a"]], 3)


def test_an_unknown_word_between_two_known_ones_keeps_them_apart():
    assert_counts(["a", "b", "a b", "a b a"], [["a", "x", "b"], ["a", "b", "x", "a"], ["x"], ["x", "a", "b", "a"]], 3)


def test_no_vocabulary_and_no_texts():
    assert table_of([], 2).rows(tokenise(TEXTS)).shape == (5, 0)
    assert table_of(["a", "a good"], 2).rows(tokenise([])).shape == (0, 2)
    assert table_of(["a", "a good"], 2).rows(["", ""]).nnz == 0
    assert frequent_ngrams(tokenise([]), (1, 2), 5)[0] == []
    assert frequent_ngrams(tokenise(["a", "b"]), (2, 3), 5)[0] == []


@pytest.mark.parametrize("featurizer", [NgramFeaturizer(), NgramFeaturizer("tfidf"), SequenceFeaturizer(min_count=1)])
def test_texts_and_their_tokens_are_the_same_to_featurizers(featurizer: NgramFeaturizer | SequenceFeaturizer):
    rows = featurizer.fit(TEXTS).transform(TEXTS)
    vocabulary = featurizer.vocabulary
    again = featurizer.fit(tokenise(TEXTS)).transform(tokenise(TEXTS))
    assert featurizer.vocabulary == vocabulary
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(again, part), getattr(rows, part))


def test_documents_are_analysed_once_however_many_featurizers_read_them(monkeypatch: pytest.MonkeyPatch):
    calls: list[int] = []

    def counted(documents: list[str]) -> TokenSequences:
        calls.append(len(documents))
        return tokenise(documents)

    monkeypatch.setattr(NgramFeaturizer, "analyse", staticmethod(counted))
    monkeypatch.setattr(SequenceFeaturizer, "analyse", staticmethod(counted))
    documents = Documents(TEXTS)
    ngrams = NgramFeaturizer().fit(documents.analysed_for(NgramFeaturizer))
    sequences = SequenceFeaturizer(min_count=1).fit(documents.analysed_for(SequenceFeaturizer))
    some = documents[np.array([4, 0])]
    assert words_of(some.analysed_for(NgramFeaturizer)) == [WORDS[4], WORDS[0]]
    assert words_of(some[np.array([1])].analysed_for(NgramFeaturizer)) == [WORDS[0]]
    both = ConcatFeaturizer([ngrams, sequences])
    assert both.transform(documents.analysed_for(ConcatFeaturizer)).shape == (5, ngrams.n_inputs + sequences.n_inputs)
    assert both.transform(some.analysed_for(ConcatFeaturizer)).shape[0] == 2
    assert calls == [5]
