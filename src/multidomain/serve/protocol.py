"""HTTP on a connection, with limits on how long a client may take."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from multidomain.errors import counted
from multidomain.serve.clients import client_of, is_proxy
from multidomain.serve.connections import Connections, Phase
from multidomain.serve.errors import ApiError, too_busy
from multidomain.serve.security import AUTHORISED, SAFE_HEADERS

KEEP_ALIVE_SECONDS = 65  # longer than clients keep theirs, so that they and not we close idle connections
_DRAIN_SECONDS = 2.0
_STALLED_SECONDS = 30.0  # in which a client reads nothing of an answer

_logger = logging.getLogger("uvicorn.error")


@dataclass(frozen=True)
class Guard:
    """Limits of all connections.

    Parameters
    ----------
    header_timeout
        Seconds that the head of a request may take.
    proxies
        See `trusted_proxies`.
    """

    connections: Connections
    header_timeout: int
    proxies: Collection[str]


class GuardedProtocol(H11Protocol):
    """Uvicorn's protocol, for a limited number of connections and with time limits.

    Uvicorn limits only how long a connection may be idle between two requests.
    """

    def __init__(self, *, guard: Guard, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self._guard = guard
        self._seen: tuple[Any, ...] = ()
        self._since = self.loop.time()
        self.peer = ""
        self.is_proxy = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        self.peer, self.is_proxy = client_of(address), is_proxy(address, self._guard.proxies)
        if not self._guard.connections.admit(self, self.loop.time()):
            self._close_with(too_busy("All connections are in use."))

    def connection_lost(self, exc: Exception | None) -> None:
        self._guard.connections.remove(self)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            if self.cycle.response_started:
                self.transport.abort()
                return
        self._close_with(ApiError(400, "invalid_http", f"{msg} Send HTTP/1.1, with a head of at most 16 kB."))

    @property
    def is_trusted(self) -> bool:
        """Return whether this is a proxy's connection, or its last request carried the token."""
        scope: Any = self.scope
        return self.is_proxy or (scope is not None and AUTHORISED in scope)

    def observe(self, now: float) -> tuple[Phase, float]:
        """Return what the connection is doing, and for how many seconds."""
        phase, unsent = self._phase(), self.transport.get_write_buffer_size()
        seen = phase, self.cycle, unsent
        if seen != self._seen:
            self._since = now if self._seen else self._since
            self._seen = seen
        return phase, now - self._since

    def evict(self) -> None:
        """Close the connection at once."""
        self.transport.abort()

    def expire(self, phase: Phase, seconds: float) -> None:
        """Close the connection if it has been in a phase for too long."""
        match phase:
            case Phase.HEAD if seconds > self._guard.header_timeout:
                self._close_unfinished_head()
            case Phase.DRAINING if seconds > _DRAIN_SECONDS:
                self.transport.abort()
            case Phase.SENDING if seconds > _STALLED_SECONDS:
                _logger.warning("Closed a connection of %s, which did not read its answer.", self.peer)
                self.transport.abort()
            case Phase.IDLE if seconds > KEEP_ALIVE_SECONDS + 1:
                self.transport.abort()

    def _phase(self) -> Phase:
        if self.transport.get_write_buffer_size():
            return Phase.SENDING
        if self.cycle is not None and not self.cycle.response_complete:
            return Phase.RECEIVING if self.cycle.more_body else Phase.ANSWERING
        if self.conn.their_state is h11.SEND_BODY:
            return Phase.DRAINING
        return Phase.HEAD if self.cycle is None or self.conn.trailing_data[0] else Phase.IDLE

    def _close_unfinished_head(self) -> None:
        if not self.conn.trailing_data[0]:  # browsers connect in advance
            self.transport.abort()
            return
        limit = counted(self._guard.header_timeout, "second")
        _logger.warning("Closed a connection of %s: no complete request head within %s.", self.peer, limit)
        self._close_with(
            ApiError(408, "request_timeout", f"The head of the request was not received within {limit}. Send it again.")
        )

    def _close_with(self, error: ApiError) -> None:
        """Send an error and close the connection, whatever state its request is in."""
        response = error.response()
        headers = [*response.raw_headers, *SAFE_HEADERS, (b"connection", b"close")]
        lines = [f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}".encode()]
        lines += [name + b": " + value for name, value in headers]
        self.transport.write(b"\r\n".join([*lines, b"", bytes(response.body)]))
        self.transport.close()
