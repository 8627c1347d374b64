"""Strings held as one text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multidomain.arrays import ranges
from multidomain.features.vocabulary import Vocabulary

strings = st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"])), max_size=8)


@given(strings, strings, st.data())
def test_it_is_a_sequence_of_strings(some: list[str], more: list[str], data: st.DataObject):
    vocabulary = Vocabulary.of(some)
    assert list(vocabulary) == some == vocabulary
    assert (len(vocabulary), repr(vocabulary), bool(vocabulary)) == (len(some), repr(some), bool(some))
    assert vocabulary[1:] == some[1:]
    assert Vocabulary(vocabulary.utf8.copy()) == vocabulary
    assert hash(Vocabulary.of(some)) == hash(vocabulary)
    assert (vocabulary == Vocabulary.of(more)) == (some == more)
    assert Vocabulary.joined([vocabulary, more]) == some + more
    numbers = data.draw(st.lists(st.integers(0, len(some) - 1))) if some else []
    assert vocabulary.take(np.array(numbers, dtype=int)) == [some[i] for i in numbers]


def test_it_is_no_other_thing():
    assert Vocabulary.of(["7"]) != 7
    assert Vocabulary.joined([]) == []


def test_line_breaks():
    with pytest.raises(ValueError, match="a string has a line break"):
        Vocabulary.of(["a\nb"])
    for utf8 in (b"a", b"a\nb"):
        with pytest.raises(ValueError, match="does not end in a line break"):
            Vocabulary(np.frombuffer(utf8, dtype=np.uint8))


def test_ranges():
    assert ranges(np.array([7, 0, 3]), np.array([2, 0, 3])).tolist() == [7, 8, 3, 4, 5]
    assert ranges(np.array([], dtype=int), np.array([], dtype=int)).tolist() == []
