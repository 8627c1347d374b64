"""Texts on disk stand where an array of strings does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multidomain import arrays
from multidomain.data.corpus import Corpus, object_array
from multidomain.data.texts import Texts, TextsBuilder, joined_texts

STRINGS = st.lists(
    st.one_of(st.text(max_size=4), st.sampled_from(["", " ", "\0", "\0\0", "\xa0", "\u3000\x1f", "\ud83d", "a"]))
)
WORDS = ["a fine pan", "", "naïve", "😀 \n x", "half \ud83d", "poor"]


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> Texts:
    monkeypatch.setattr(arrays, "LARGE", 16)
    found = TextsBuilder().extend(WORDS[:2]).extend(WORDS[2:]).finish()
    assert isinstance(found, Texts)
    return found


def test_few_texts_are_an_array_of_strings():
    found = TextsBuilder().extend(WORDS[:2]).extend(WORDS[2:]).finish()
    assert isinstance(found, np.ndarray) and found.dtype == object and found.tolist() == WORDS


def test_texts_are_read_as_an_array_is(texts: Texts):
    array = object_array(WORDS)
    assert list(texts) == WORDS and len(texts) == 6 and texts.shape == array.shape
    assert [texts[i] for i in (-1, 0, np.int64(3))] == [array[i] for i in (-1, 0, 3)]
    for rows in (slice(1, 5, 2), np.array([5, 0, 0]), np.arange(6) > 2):
        assert isinstance(texts[rows], Texts) and list(texts[rows]) == array[rows].tolist()


def test_texts_are_joined(texts: Texts):
    both = joined_texts([texts, object_array(["x"])])
    assert isinstance(both, Texts) and list(both) == [*WORDS, "x"]
    assert joined_texts([object_array(["x"]), object_array(["y"])]).tolist() == ["x", "y"]


def test_a_corpus_of_them_is_the_same(texts: Texts):
    one, other = (Corpus(t, ["good", None] * 3, ["pans"] * 6) for t in (texts, WORDS))
    assert one.is_text and one.documents is texts
    assert one.content_hash() == other.content_hash()
    assert one.text_keys().tolist() == other.text_keys().tolist()
    rows = np.array([3, 1])
    assert list(one.select(rows).documents) == other.select(rows).documents.tolist()
    assert list(Corpus.concat([one, other]).documents) == [*WORDS, *WORDS]


@settings(deadline=None)
@given(strings=STRINGS)
def test_any_strings(strings: list[str]):
    """Halves of surrogate pairs included."""
    held = Texts.of(strings)
    assert list(held) == strings and list(held[1:3]) == strings[1:3]
    assert list(held[np.arange(len(strings))[::-1]]) == strings[::-1]
    assert held.are_not_blank().tolist() == [bool(text.strip()) for text in strings]
    values, number = held.distinct()
    assert values == list(dict.fromkeys(strings)) and [values[k] for k in number] == strings
