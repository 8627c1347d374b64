"""How many connections there may be, in total and of one client, and which one goes if there are too many."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection
from enum import IntEnum
from typing import Protocol

from multidomain.errors import Note
from multidomain.serve.limits import Limits

ACCEPTED_AT_ONCE = 16
# The event loop accepts for some four rounds before the first connection that is replaced is closed. Beyond the limit
# on open files it would accept nothing for a second.
_OTHER_FILES = 8 * ACCEPTED_AT_ONCE + 64
_FEWEST = 16
_GRACE_SECONDS = 5.0  # in which what a client sends or reads is not interrupted

_logger = logging.getLogger("uvicorn.error")


class Phase(IntEnum):
    """What a connection is doing; the earlier ones are the first to go."""

    HEAD = 0
    """Nothing or a part of a request's head was received."""
    DRAINING = 1
    """The request was answered before its body was received."""
    IDLE = 2
    """A request was answered, and the next one has not begun."""
    RECEIVING = 3
    """The body of a request is being received."""
    SENDING = 4
    """The client is reading an answer."""
    ANSWERING = 5
    """A request was received, and its answer is being computed."""


class Connection(Protocol):
    """What `Connections` needs to know of one."""

    peer: str
    """Who is connected; see `client_of`."""
    is_proxy: bool

    @property
    def is_trusted(self) -> bool:
        """Return whether it is a proxy's, or its last request carried the token."""

    def observe(self, now: float) -> tuple[Phase, float]:
        """Return what it is doing, and for how many seconds."""

    def evict(self) -> None:
        """Close it at once."""

    def expire(self, phase: Phase, seconds: float) -> None:
        """Close it if it has been in a phase for too long."""


def connection_limit(limits: Limits) -> tuple[int, list[Note]]:
    """Return how many connections there may be, and a note if the limit on open files is what decides."""
    files = _open_files()
    most = limits.max_connections if files is None else min(limits.max_connections, max(_FEWEST, files - _OTHER_FILES))
    if most == limits.max_connections:
        return most, []
    note = f"At most {most:,} connections instead of {limits.max_connections:,}: this process may open {files:,} files."
    return most, [Note(note, "Raise the limit, for example with 'ulimit -n 4096'.")]


class Connections:
    """All open connections.

    A new connection beyond a limit replaces another one: of its own client if that has too many, else of the client
    that has most. One that has shown the token goes after all that have not, and a request that is being answered is
    never interrupted. So whoever holds connections loses them to those who use theirs. If there is none to replace, the
    new one is refused.

    Parameters
    ----------
    most, most_of_client
        How many there may be in total, and of one client that is no trusted proxy.
    """

    def __init__(self, most: int, most_of_client: int) -> None:
        self._most = most
        self._most_of_client = most_of_client
        self._by_client: defaultdict[str, dict[Connection, None]] = defaultdict(dict)  # the oldest first
        self._n = 0

    def admit(self, new: Connection, now: float) -> bool:
        """Add a connection, at the cost of another one if need be; return whether there is room for it."""
        n_own = len(self._by_client.get(new.peer, ()))
        if not new.is_proxy and n_own >= self._most_of_client:
            if not self._replace([new.peer], now):
                _logger.warning("Refused a connection of %s, which has %d in use.", new.peer, n_own)
                return False
        elif self._n >= self._most and not self._replace(self._by_client, now):
            _logger.warning("Refused a connection of %s: all %d are in use.", new.peer, self._n)
            return False
        self._by_client[new.peer][new] = None
        self._n += 1
        return True

    def remove(self, connection: Connection) -> None:
        """Forget a connection, if it is still known."""
        held = self._by_client.get(connection.peer, {})
        if connection in held:
            del held[connection]
            self._n -= 1
            if not held:
                del self._by_client[connection.peer]

    def expire(self, now: float) -> None:
        """Close the connections on which something takes too long."""
        for connection in [connection for held in self._by_client.values() for connection in held]:
            connection.expire(*connection.observe(now))

    def _replace(self, clients: Collection[str], now: float) -> bool:
        """Close a connection of one of some clients, if there is one that may go."""
        replaced = self._first_to_go(clients, now)
        if replaced is None:
            return False
        held = len(self._by_client[replaced.peer])
        _logger.warning("Closed a connection of %s, which had %d, to make room for another.", replaced.peer, held)
        self.remove(replaced)
        replaced.evict()
        return True

    def _first_to_go(self, clients: Collection[str], now: float) -> Connection | None:
        # The oldest one without a request, of the client that has most: mostly the first that is looked at. Looking at
        # all of them for each new one would take a millisecond, and be an attack of its own.
        greediest = max(clients, key=lambda client: len(self._by_client[client]))
        for connection in self._by_client[greediest]:
            if not connection.is_trusted and connection.observe(now)[0] == Phase.HEAD:
                return connection
        candidates = [connection for client in clients for connection in self._by_client[client]]
        ranked = [(rank, c) for c in candidates if (rank := self._rank(c, now)) is not None]
        return min(ranked, key=lambda pair: pair[0])[1] if ranked else None

    def _rank(self, connection: Connection, now: float) -> tuple[bool, bool, int, float] | None:
        """Return a key by which the first to go is the least, None if it must not go."""
        phase, seconds = connection.observe(now)
        is_in_use = phase >= Phase.RECEIVING
        if phase == Phase.ANSWERING or (is_in_use and seconds < _GRACE_SECONDS):
            return None
        return connection.is_trusted, is_in_use, -len(self._by_client[connection.peer]), -seconds


def _open_files() -> int | None:
    """Return how many files this process may open, None if there is no such limit."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft
