"""Streams: every row once a lap, and a state that is one number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from multidomain.methods.data import TrainingData
from multidomain.methods.gradient import Batch
from multidomain.nn.sparse import SparseMatrix
from multidomain.training import sampling
from multidomain.training.sampling import DomainStream, labelled_stream, text_stream


def stream_of(sizes: list[int], batch_size: int, seed: int = 0, labels: bool = True) -> DomainStream:
    """One pool of `sizes[d]` rows for each domain. Row r has the value r + 1 and the class r % 5."""
    n_rows = sum(sizes)
    x = SparseMatrix(csr_matrix(np.arange(1.0, n_rows + 1)[:, None]))
    rows = np.split(np.arange(n_rows), np.cumsum(sizes)[:-1])
    y = np.arange(n_rows) % 5 if labels else None
    return DomainStream(x, [[pool] for pool in rows], y, batch_size, (seed, 0))


def row_numbers(batch: Batch, domains: int, batch_size: int) -> np.ndarray:
    """Shape (draws, domains, batch size); checks the labels on the way."""
    rows = (batch.x.value.numpy() - 1).astype(int)
    if batch.y is not None:
        assert batch.y.shape == (len(rows) // batch_size, batch_size)
        np.testing.assert_array_equal(batch.y.numpy().reshape(-1), rows % 5)
    return rows.reshape(-1, domains, batch_size)


def draw(stream: DomainStream, times: int, domains: int, batch_size: int) -> np.ndarray:
    """Row numbers of successive draws, shape (times, domains, batch size)."""
    return np.concatenate([row_numbers(stream.sample(), domains, batch_size) for _ in range(times)])


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=4),
    batch_size=st.integers(2, 9),
    seed=st.integers(0, 3),
)
def test_each_row_comes_once_a_lap_and_only_from_its_domain(sizes: list[int], batch_size: int, seed: int):
    draws = draw(stream_of(sizes, batch_size, seed), 80, len(sizes), batch_size)  # more than a block
    starts = np.cumsum([0, *sizes])
    for d, size in enumerate(sizes):
        sequence = draws[:, d].reshape(-1)
        laps = len(sequence) // size
        for lap in sequence[: laps * size].reshape(laps, size):
            assert sorted(lap) == list(range(starts[d], starts[d + 1]))


def test_laps_differ_in_order():
    sequence = draw(stream_of([50], 10), 10, 1, 10).reshape(2, 50)
    assert not np.array_equal(sequence[0], sequence[1])
    assert not np.array_equal(sequence[0], np.sort(sequence[0]))


def test_domains_are_shuffled_independently():
    draws = draw(stream_of([50, 50], 10), 5, 2, 10)
    assert not np.array_equal(draws[:, 0].reshape(-1), draws[:, 1].reshape(-1) - 50)


def test_the_seed_decides():
    a, b, other = (draw(stream_of([20, 7], 4, seed), 30, 2, 4) for seed in (1, 1, 2))
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, other)


def test_nothing_else_decides():
    a = draw(stream_of([20, 7], 4), 5, 2, 4)
    np.random.seed(99)  # noqa: NPY002
    torch.manual_seed(99)
    state = torch.get_rng_state()
    np.testing.assert_array_equal(a, draw(stream_of([20, 7], 4), 5, 2, 4))
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("point", [0, 1, 5, 63, 64, 65, 100, 128, 150])
def test_goes_on_from_any_point(point: int):
    """Also from the middle of a block of planned mini-batches, and of a lap."""
    assert sampling._BLOCK == 64, "choose the points anew"
    whole = draw(stream_of([23, 5, 40], 4), 170, 3, 4)
    stream = stream_of([23, 5, 40], 4)
    stream.drawn = point
    np.testing.assert_array_equal(draw(stream, 20, 3, 4), whole[point : point + 20])
    assert stream.drawn == point + 20


WHOLE = draw(stream_of([23, 5], 4), 280, 2, 4)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 200), st.integers(1, 70)), min_size=1, max_size=6))
def test_goes_on_from_anywhere_after_having_been_anywhere(jumps: list[tuple[int, int]]):
    """Forwards and backwards, with one draw or many: `drawn` is the whole state."""
    stream = stream_of([23, 5], 4)
    for point, times in jumps:
        stream.drawn = point
        rows = row_numbers(stream.sample(times), 2, 4)
        np.testing.assert_array_equal(rows, WHOLE[point : point + times])
        assert stream.drawn == point + times


@pytest.mark.parametrize("times", [1, 2, 6, 64, 100])
def test_many_at_once_are_successive_draws(times: int):
    one_by_one, at_once = stream_of([23, 5], 4), stream_of([23, 5], 4)
    for _ in range(3):  # the blocks of both are not in step after the first
        batch = at_once.sample(times)
        expected = draw(one_by_one, times, 2, 4)
        np.testing.assert_array_equal(row_numbers(batch, 2, 4), expected)
        assert at_once.drawn == one_by_one.drawn


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_a_domain_smaller_than_a_mini_batch_is_repeated_within_it(size: int):
    draws = draw(stream_of([size, 20], 8), 12, 2, 8)
    for batch in draws[:, 0]:
        counts = Counter(batch.tolist())
        assert set(counts) <= set(range(size))
        often = [counts[row] for row in range(size)]
        assert max(often) - min(often) <= 2  # a lap may be cut at both ends


def test_balanced_pools_come_equally_often():
    """Classes of 2, 3 and 10 rows: 10 of each in a lap, the few rows of a class as evenly as can be."""
    pools = [np.array([0, 1]), np.array([2, 3, 4]), np.arange(5, 15)]
    x = SparseMatrix(csr_matrix(np.arange(1.0, 16)[:, None]))
    stream = DomainStream(x, [pools], None, 5, (0, 0))
    orders = []
    for _ in range(4):
        lap = np.concatenate([stream.sample().x.value.numpy() for _ in range(6)]).astype(int) - 1
        counts = np.bincount(lap, minlength=15)
        assert [counts[pool].sum() for pool in pools] == [10, 10, 10]
        assert list(counts[:2]) == [5, 5]
        assert sorted(counts[2:5]) == [3, 3, 4]
        assert list(counts[5:]) == [1] * 10
        orders.append(lap)
        which = np.digitize(lap, [2, 5])
        assert (np.diff(which) != 0).sum() > 8, "classes are mixed, not one after the other"
    assert not np.array_equal(orders[0], orders[1])


def test_labelled_stream(training_data_of: Callable[..., TrainingData]):
    """X: labelled domains only, with the right labels."""
    data = training_data_of(labelled=(9, 0, 12), text=(9, 6, 12))
    batch = labelled_stream(data, 6, seed=0, balanced=False).sample(3)
    assert batch.y.shape == (3 * 2, 6)
    rows = batch.x.value[batch.x.offset[:-1]].long().reshape(3, 2, 6) - 1
    assert set(rows[:, 0].flatten().tolist()) == set(range(9))
    assert set(rows[:, 1].flatten().tolist()) <= set(range(9, 21))
    np.testing.assert_array_equal(batch.y.reshape(3, 2, 6), rows % 2)


def test_text_stream(training_data_of: Callable[..., TrainingData]):
    """U: all domains, no labels."""
    data = training_data_of(labelled=(9, 0, 12), text=(9, 6, 12))
    batch = text_stream(data, 6, seed=0).sample(2)
    assert batch.y is None
    rows = batch.x.value[batch.x.offset[:-1]].long().reshape(2, 3, 6) - 1
    assert set(rows[:, 1].flatten().tolist()) == set(range(9, 15))


def test_X_and_U_are_independent(training_data_of: Callable[..., TrainingData]):
    """The same rows of the first domain, in different orders, though the seed is one."""
    data = training_data_of()
    X, U = labelled_stream(data, 9, 0, False), text_stream(data, 9, 0)
    first = [b.x.value[b.x.offset[:9]].tolist() for b in (X.sample(), U.sample())]
    assert sorted(first[0]) == sorted(first[1]) == list(range(1, 10))
    assert first[0] != first[1]


def test_balanced_labelled_stream(training_data_of: Callable[..., TrainingData]):
    data = training_data_of(labelled=(10, 10), text=(10, 10), dev=(2, 2))
    y = np.zeros(20, dtype=int)
    y[[3, 14, 15, 16]] = 1  # 1 of 10 and 3 of 10
    data = replace(data, labelled=replace(data.labelled, y=y))
    balanced = labelled_stream(data, 6, 0, balanced=True).sample(30).y.double().reshape(30, 2, 6)
    as_it_is = labelled_stream(data, 6, 0, balanced=False).sample(30).y.double().reshape(30, 2, 6)
    np.testing.assert_allclose(balanced.mean(dim=(0, 2)), [0.5, 0.5], atol=0.03)
    np.testing.assert_allclose(as_it_is.mean(dim=(0, 2)), [0.1, 0.3], atol=0.03)
