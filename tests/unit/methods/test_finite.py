"""Weights that are not finite, and how they are named."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from multidomain.methods.finite import not_finite, weights_are


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (1, 2), (3, 4)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_one_value_is_enough(bad: float, place: tuple[int, int], dtype: type):
    array = np.ones((4, 5), dtype=dtype)
    assert not_finite([("a", array)]) == []
    array[place] = bad
    assert not_finite([("a", array)]) == ["a"]


def test_names_are_in_the_order_given():
    bad, good = np.array([0.0, np.nan]), np.array([0.0])
    assert not_finite([("b", bad), ("c", good), ("a", bad)]) == ["b", "a"]


def test_the_largest_numbers_are_finite():
    assert not_finite([("a", np.array([-1, 1]) * np.finfo(np.float32).max)]) == []


def test_whole_numbers_and_nothing_at_all_are_finite():
    arrays = [np.zeros((0, 3), dtype=np.float32), np.array([2**62]), np.array([True]), np.array(1.0)]
    assert not_finite((str(i), array) for i, array in enumerate(arrays)) == []


def test_nothing_of_the_size_of_the_weights_is_allocated():
    array = np.ones(2_000_000, dtype=np.float32)
    tracemalloc.start()
    try:
        not_finite([("a", array)])
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 200_000


def test_in_words():
    assert weights_are(["a"]) == "weight 'a' is"
    assert weights_are(["a", "b"]) == "weights 'a', 'b' are"
    assert weights_are(list("abcdef")) == "weights 'a', 'b', 'c', 'd' and 2 more are"
