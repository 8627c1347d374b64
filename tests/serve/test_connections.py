"""Which connection goes when there are too many, who a client is, and what reaches the log."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import pytest

from multidomain.errors import ConfigError
from multidomain.serve.clients import client_of, trusted_proxies
from multidomain.serve.connections import Connections, Phase, connection_limit
from multidomain.serve.limits import Limits
from multidomain.serve.logs import OncePerMinute


@dataclass(eq=False)
class Held:
    peer: str
    phase: Phase = Phase.HEAD
    seconds: float = 0.0
    is_trusted: bool = False
    is_proxy: bool = False
    is_open: bool = True

    def observe(self, now: float) -> tuple[Phase, float]:
        return self.phase, self.seconds

    def evict(self) -> None:
        self.is_open = False

    def expire(self, phase: Phase, seconds: float) -> None:
        raise NotImplementedError


def closed_for(new: Held, *held: Held, most: int = 100, most_of_client: int = 100) -> list[Held] | None:
    """Return the connections that a new one replaces, None if it is refused."""
    connections = Connections(most, most_of_client)
    for connection in held:
        assert connections.admit(connection, 0)
    return [connection for connection in held if not connection.is_open] if connections.admit(new, 0) else None


def test_within_the_limits_nothing_is_closed() -> None:
    assert closed_for(Held("a"), Held("a"), Held("b"), most=3, most_of_client=2) == []


def test_a_client_with_too_many_loses_the_oldest_of_its_own() -> None:
    oldest, newer, other = Held("a"), Held("a"), Held("b")
    assert closed_for(Held("a"), other, oldest, newer, most_of_client=2) == [oldest]


def test_in_total_the_client_with_most_loses_one() -> None:
    alone, first, second = Held("b"), Held("a"), Held("a")
    assert closed_for(Held("c"), alone, first, second, most=3) == [first]


def test_a_connection_with_the_token_goes_last() -> None:
    trusted, idle = Held("a", Phase.IDLE, 60, is_trusted=True), Held("b", Phase.IDLE, 1)
    assert closed_for(Held("c"), trusted, Held("a", Phase.ANSWERING), idle, most=3) == [idle]
    assert closed_for(Held("c"), trusted, Held("a", Phase.ANSWERING), most=2) == [trusted]


@pytest.mark.parametrize(
    "in_use", [Held("a", Phase.ANSWERING, 99), Held("a", Phase.RECEIVING, 1), Held("a", Phase.SENDING, 1)]
)
def test_what_is_in_use_is_not_interrupted(in_use: Held) -> None:
    assert closed_for(Held("b"), in_use, most=1) is None
    assert closed_for(Held("a"), in_use, most_of_client=1) is None


def test_a_body_that_takes_long_may_go() -> None:
    slow = Held("a", Phase.RECEIVING, 6)
    assert closed_for(Held("b"), Held("c", Phase.ANSWERING), slow, most=2) == [slow]


def test_a_proxy_may_have_more_than_a_client() -> None:
    held = [Held("p", Phase.IDLE, is_proxy=True) for _ in range(3)]
    assert closed_for(Held("p", is_proxy=True), *held, most_of_client=2) == []


def test_a_connection_that_is_gone_makes_room() -> None:
    connections, gone = Connections(1, 1), Held("a", Phase.ANSWERING)
    assert connections.admit(gone, 0)
    assert not connections.admit(Held("b"), 0)
    connections.remove(gone)
    connections.remove(gone)
    assert connections.admit(Held("b"), 0)


def test_the_limit_on_open_files_lowers_that_on_connections() -> None:
    most, notes = connection_limit(Limits(max_connections=10**9))
    assert most < 10**9
    assert notes[0].message.startswith(f"At most {most:,} connections instead of 1,000,000,000: this process may open")
    assert connection_limit(Limits(max_connections=16)) == (16, [])


def test_a_client_is_an_address_or_a_network() -> None:
    assert client_of("2001:db8::1") == client_of("2001:db8::ffff:1") != client_of("2001:db8:0:1::1")
    assert client_of("::ffff:10.0.0.1") == "10.0.0.1"
    assert len(client_of("x" * 10_000)) == 100


def test_a_proxy_must_be_an_address() -> None:
    assert trusted_proxies(["::ffff:10.0.0.1", "0::1"]) == {"10.0.0.1", "::1"}
    with pytest.raises(ConfigError, match="'proxy' is not the address of a proxy"):
        trusted_proxies(["proxy"])


def logged(message: str, *args: object, error: BaseException | None = None) -> logging.LogRecord:
    exc_info = (type(error), error, error.__traceback__) if error else None
    return logging.LogRecord("asyncio", logging.ERROR, __file__, 1, message, args, exc_info)


def test_one_message_of_a_kind_passes_in_a_minute_and_the_next_counts_the_others() -> None:
    now = 0.0
    once = OncePerMinute(lambda: now)
    assert once.filter(logged("closed %s", "a"))
    assert not any(once.filter(logged("closed %s", name)) for name in "bcd")
    assert once.filter(logged("another"))
    now = 61
    last = logged("closed %s", "e")
    assert once.filter(last)
    assert last.getMessage() == "closed e (3 more like it since the last such message)"


def test_kinds_are_bounded_and_system_errors_are_one_line() -> None:
    once = OncePerMinute(lambda: 0.0)
    record = logged("accept failed\nsocket: <fd=3>", error=OSError(24, "Too many open files"))
    assert once.filter(record)
    assert record.getMessage() == "accept failed: [Errno 24] Too many open files"
    assert record.exc_info is None
    for i in range(500):
        once.filter(logged(f"kind {i}"))
    assert len(once._seen) <= 100
