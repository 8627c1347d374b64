"""Ctrl-C and SIGTERM, held until they do no harm."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from multidomain.training import signals
from multidomain.training.signals import held_signals

SIGNALS = [signal.SIGINT, signal.SIGTERM]


class Came(Exception):
    pass


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Handlers that raise, for as long as a test runs."""

    def came(number: int, _: object) -> None:
        raise Came(number)

    before = {number: signal.signal(number, came) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_comes_after_the_block(number: int):
    reached = []
    with pytest.raises(Came) as came:
        with held_signals() as held:
            assert held.number is None
            signal.raise_signal(number)
            reached.append(held.number)
        pytest.fail("it did not come")
    assert reached == [number] and came.value.args == (number,)


def test_a_second_signal_is_not_held():
    with pytest.raises(Came), held_signals():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        pytest.fail("it was held")


def test_the_same_signal_again_is_held_where_several_processes_train(monkeypatch: pytest.MonkeyPatch):
    """It comes from the terminal and from torchrun; the first process is writing a checkpoint meanwhile."""
    monkeypatch.setattr(signals, "are_joined", lambda: True)
    reached = []
    with pytest.raises(Came) as came, held_signals():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        reached.append("the end")
        signal.raise_signal(signal.SIGINT)
        reached.append("more")
    assert reached == ["the end"] and came.value.args == (signal.SIGINT,)


def test_without_a_signal_nothing_changes():
    before = [signal.getsignal(number) for number in SIGNALS]
    with held_signals():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_a_signal_that_is_ignored_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with held_signals() as held:
        signal.raise_signal(signal.SIGINT)
    assert held.number is None


def test_a_handler_that_is_not_of_python_is_left_alone(monkeypatch: pytest.MonkeyPatch):
    """Python could not set it again."""
    replaced: list[object] = []
    with monkeypatch.context() as patched:
        patched.setattr(signal, "getsignal", lambda _: None)
        patched.setattr(signal, "signal", lambda *given: replaced.append(given))
        with held_signals():
            pass
    assert not replaced


def test_other_threads_hold_nothing():
    found = []

    def run() -> None:
        with held_signals() as held:
            found.append((held.number, signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [(None, signal.getsignal(signal.SIGINT))]
