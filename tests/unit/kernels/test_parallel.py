"""Several threads: order, how far ahead, and faults."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from multidomain import threads
from multidomain.kernels.parallel import chunks, map_ahead, map_in_threads


@pytest.fixture(params=[1, 3])
def n_threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(threads, "_compiled_threads", request.param)
    return request.param


def slow_square(number: int) -> int:
    time.sleep(0.02 if number % 4 == 0 else 0)  # so that later ones are done first
    return number**2


def test_results_are_in_the_order_of_the_items(n_threads: int):
    squares = [number**2 for number in range(20)]
    assert map_in_threads(slow_square, range(20)) == squares
    assert list(map_ahead(slow_square, range(20))) == squares
    assert list(map_ahead(slow_square, [])) == map_in_threads(slow_square, []) == []


def test_few_items_are_taken_ahead(n_threads: int):
    taken = []

    def items() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    results = map_ahead(slow_square, items())
    assert [next(results) for _ in range(10)] == [number**2 for number in range(10)]
    assert len(taken) <= 10 + n_threads
    results.close()


def test_a_fault_comes_in_its_turn(n_threads: int):
    def fails_at_three(number: int) -> int:
        if number == 3:
            raise ValueError("three")
        return number

    seen = []
    with pytest.raises(ValueError, match="three"):
        for number in map_ahead(fails_at_three, range(10)):
            seen.append(number)
    assert seen == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        map_in_threads(fails_at_three, range(10))


def test_a_thread_among_several_starts_no_more(n_threads: int):
    inside = set(map_ahead(lambda _: (threads.compiled_threads(), threading.current_thread().name), range(20)))
    assert {number for number, _ in inside} == {1}
    assert len({name for _, name in inside}) <= n_threads
    assert threads.compiled_threads() == n_threads


def test_chunks_cover_all_rows_once(n_threads: int):
    for rows in (0, 1, 7, 20_000):
        found = [row for part in chunks(rows) for row in range(rows)[part]]
        assert found == list(range(rows))
