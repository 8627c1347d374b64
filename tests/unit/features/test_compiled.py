"""Compiled tokens, n-grams and rows against those of Python and numpy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multidomain import threads
from multidomain.features import tokens
from multidomain.features.ngram_counts import frequent_ngrams
from multidomain.features.ngrams import NgramFeaturizer
from multidomain.features.token_rules import is_plain
from multidomain.features.tokens import TokenSequences, tokenise
from multidomain.features.vocabulary import Vocabulary
from multidomain.kernels import parallel
from multidomain.kernels.hashing import BASE, mixed, token_hashes

WRITTEN = (
    "cannot Cannot gon na got ta wan gim me lem 't is was n't N'T 's 'm 'd 're 've 'll ' '' ` `` _ __ -lrb- -RRB- "
    "-lsb- -rcb- lrb- -lrb -l b- - -- ! ? . , 1 5 1.5 1,000 2,b ; : & < > / = a A I x ca do don't rock'n'roll t s"
)
PLAIN = [*WRITTEN.split(" "), " ", "  ", "\t", "\n", "\x00", "\x7f", '"']
RARE = ["é", "É", "İ", "ß", "’", "“", "½", "ﬁ", "非", "は", "™", "e\u0301", "\u200d", "हिन्दी", "😀", "\ud800", "\x85"]
HTML = ["&amp;", "& amp ;", "&amp;quot;", "&#39;", "&lt;", "<br />", "< br / >", "<a href=", "<BR>", "</p>", "<_br>"]


def compiled(do):
    """Do something by compiled code, however little there is to do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "MANY_ROWS", 0)
        return do()


def assert_equal_tokens(texts: list[str]) -> None:
    expected, found = tokens._tokenise(texts), compiled(lambda: tokenise(texts))
    if not np.array_equal(found.ids, expected.ids) or found.vocabulary != expected.vocabulary:
        for text, a, b in zip(texts, found.words(), expected.words(), strict=True):
            assert a == b, text
    np.testing.assert_array_equal(found.offsets, expected.offsets)
    np.testing.assert_array_equal(found.vocabulary.hashes, expected.vocabulary.hashes)
    assert (found.ids.dtype, found.offsets.dtype) == (expected.ids.dtype, expected.offsets.dtype)


@settings(deadline=None, max_examples=300)
@given(st.lists(st.lists(st.sampled_from(PLAIN), max_size=14).map("".join), max_size=20))
def test_pieces_of_plain_text(texts: list[str]):
    assert_equal_tokens(texts)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.lists(st.sampled_from(PLAIN + RARE + HTML), max_size=14).map("".join), max_size=20))
def test_pieces_of_any_text(texts: list[str]):
    assert_equal_tokens(texts)


@settings(deadline=None)
@given(st.lists(st.text(), max_size=5))
def test_any_unicode(texts: list[str]):
    assert_equal_tokens(texts)


def test_many_random_texts():
    """Far more than hypothesis has time for; nearly all of them plain."""
    random = np.random.default_rng(0)
    pieces = np.array([*PLAIN * 9, *RARE, *HTML], dtype=object)
    joints = np.array(["", " "], dtype=object)
    texts = ["".join(random.choice(pieces, n) + random.choice(joints, n)) for n in random.integers(0, 12, 20_000)]
    assert sum(map(is_plain, texts)) > 10_000
    assert_equal_tokens(texts)


@pytest.mark.benchmark_data
def test_all_of_fdu_mtl(benchmark_data: Path):
    from multidomain.data.named.registry import load_corpus

    texts = list(load_corpus("fdu-mtl").documents)
    assert np.mean([is_plain(text) for text in texts]) > 0.98
    assert_equal_tokens(texts)


WORDS = [f"w{i}" for i in range(40)]


def corpus(seed: int, rows: int = 60) -> list[str]:
    random = np.random.default_rng(seed)
    words = np.array(WORDS)
    return [
        " ".join(words[np.minimum(random.geometric(0.1, size), 40) - 1]) for size in random.integers(0, 90, size=rows)
    ]


def assert_equal_rows(found, expected) -> None:
    assert found.shape == expected.shape
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(found, part), getattr(expected, part))
        assert getattr(found, part).dtype == getattr(expected, part).dtype
    assert found.has_canonical_format


@pytest.mark.parametrize("weighting", ["counts", "tfidf"])
@pytest.mark.parametrize("ngram_range", [(1, 1), (1, 2), (2, 3), (1, 3), (1, 200)])
@pytest.mark.parametrize("most", [1, 7, 300, 100_000])
def test_fitted_features_and_rows(weighting: str, ngram_range: tuple[int, int], most: int):
    fitted, new = corpus(0), [*corpus(1), "", "unknown", "W1 w2! w3", "é w1 w2"]
    expected = NgramFeaturizer(weighting, most, ngram_range).fit(fitted)
    found = compiled(lambda: NgramFeaturizer(weighting, most, ngram_range).fit(fitted))
    assert found.vocabulary == expected.vocabulary
    for name, array in expected.to_state()[1].items():
        np.testing.assert_array_equal(found.to_state()[1][name], array)
    assert_equal_rows(compiled(lambda: found.transform(new)), expected.transform(new))
    assert_equal_rows(compiled(lambda: found.transform(tokenise(new))), expected.transform(new))
    assert_equal_rows(compiled(lambda: found.transform([])), expected.transform([]))


@pytest.mark.parametrize("ngram_range", [(1, 1), (1, 3)])
@pytest.mark.parametrize("min_df", [1, 2, 20])
def test_minimum_number_of_documents(ngram_range: tuple[int, int], min_df: int):
    from sklearn.feature_extraction.text import CountVectorizer

    texts = corpus(3)
    reference = CountVectorizer(token_pattern=r"\w+", ngram_range=ngram_range, min_df=min_df).fit(texts)
    for found, _ in (
        frequent_ngrams(tokenise(texts), ngram_range, 10**6, min_df),
        compiled(lambda: frequent_ngrams(tokenise(texts), ngram_range, 10**6, min_df)),
    ):
        assert sorted(found) == sorted(reference.vocabulary_)


def test_results_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch):
    texts = corpus(5, 200)
    features = compiled(lambda: NgramFeaturizer("tfidf", ngram_range=(1, 3)).fit(texts))
    one, rows = compiled(lambda: tokenise(texts)), compiled(lambda: features.transform(texts))
    monkeypatch.setattr(parallel, "_MOST_ROWS", 17)
    monkeypatch.setattr(threads, "_compiled_threads", 3)
    three = compiled(lambda: tokenise(texts))
    np.testing.assert_array_equal(three.ids, one.ids)
    assert three.vocabulary == one.vocabulary
    again = compiled(lambda: NgramFeaturizer("tfidf", ngram_range=(1, 3)).fit(texts))
    assert again.vocabulary == features.vocabulary
    assert_equal_rows(compiled(lambda: again.transform(texts)), rows)


def test_hashes_are_those_of_a_loop():
    words = ["a", "good", "café", "x" * 300]
    expected = []
    for word in words:
        code = 0
        for byte in word.encode():
            code = (code * int(BASE) + byte) % 2**64
        expected.append(code)
    vocabulary = Vocabulary.of(words)
    np.testing.assert_array_equal(token_hashes(vocabulary.utf8, vocabulary.ends), mixed(np.array(expected, np.uint64)))


def thue_morse(length: int, letters: str) -> str:
    """Such words of 2^11 letters have the same hash as with their letters swapped, whatever its base is."""
    return "".join(letters[i.bit_count() % 2] for i in range(length))


@pytest.mark.parametrize("do", [compiled, lambda do: do()], ids=["compiled", "numpy"])
def test_words_that_share_a_hash(do):
    a, b = thue_morse(2048, "ab"), thue_morse(2048, "ba")
    texts = [f"{a} x", f"{b} x", f"{b} y"]
    found: TokenSequences = do(lambda: tokenise(texts))
    assert list(found.words()) == [[a, "x"], [b, "x"], [b, "y"]], "tokens are compared by their bytes"
    assert len(set(Vocabulary.of([a, b]).hashes.tolist())) == 1
    features = do(lambda: NgramFeaturizer(ngram_range=(1, 2)).fit(texts))
    assert features.vocabulary == [b, "x", f"{a} x", f"{b} y", "y"], "of two with one hash the first is kept"
    assert do(lambda: features.transform(texts)).toarray()[:, 0].tolist() == [1, 1, 1]


def test_a_few_texts_do_without_numba():
    script = """
import sys
from multidomain.features.ngrams import NgramFeaturizer
from multidomain.features.sequences import SequenceFeaturizer
texts = ["a good book", "not a good film"] * 50
for features in (NgramFeaturizer("tfidf"), SequenceFeaturizer()):
    features.fit(texts).transform(texts)
    type(features).from_state(*features.to_state()).transform(texts)
assert "numba" not in sys.modules
NgramFeaturizer().fit(texts * 100)
assert "numba" in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)
