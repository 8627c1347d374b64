"""A server with graceful shutdown: it answers all accepted requests before it stops."""

from __future__ import annotations

import asyncio
import ctypes
import signal
import socket
import struct
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import uvicorn

from multidomain.errors import ConfigError
from multidomain.serve.connections import ACCEPTED_AT_ONCE
from multidomain.serve.logs import limit_logs
from multidomain.serve.protocol import KEEP_ALIVE_SECONDS, Guard, GuardedProtocol
from multidomain.serve.security import SafeHeaders

GRACE_SECONDS = 30  # for requests that are being answered
_FAREWELL_ROUNDS = 150  # of the event loop, in which connections are left open that may still have sent one
_ROUND_SECONDS = 0.01
_BACKLOG = 2048
_TICKS = 10  # of uvicorn in a second
_HANDSHAKE_SECONDS = 0.05  # for connections that are being established


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address, or say why that cannot be."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror:
        raise ConfigError(f"'{host}' is not an address of this machine. Use 127.0.0.1, 0.0.0.0 or its name.") from None
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(_BACKLOG)  # here and not later, so that a port in use is found before the model is loaded
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"Cannot listen on {host}, port {port}: {(error.strerror or str(error)).lower()}.",
            "Choose another port ({port=PORT}), or any free one ({port=0}).",
        ) from None
    return listener


def url_of(listener: socket.socket) -> str:
    """Return where a browser finds the server."""
    host, port = listener.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"


def ignore_new_connections(listener: socket.socket) -> None:
    """Let the kernel drop requests for a connection from now on; those that it has taken stay in the queue.

    A connection that is established between the last `accept` and the close of the socket would be reset, with the
    request that it carries. One that is dropped is tried again by the client's kernel, and refused then. Linux only.
    """
    if sys.platform != "linux":
        return
    drop_syn = [  # of the TCP header: keep what is no SYN, or a SYN with ACK
        (0x30, 0, 0, 13),  # load the byte of flags
        (0x54, 0, 0, 0x12),  # and SYN | ACK
        (0x15, 0, 1, 0x02),  # is it SYN?
        (0x06, 0, 0, 0),  # drop
        (0x06, 0, 0, 0xFFFFFFFF),  # keep
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in drop_syn))
    attach_filter = 26  # SO_ATTACH_FILTER, which the module socket does not name
    with suppress(OSError):  # a kernel without filters
        program = struct.pack("HP", len(drop_syn), ctypes.addressof(code))
        listener.setsockopt(socket.SOL_SOCKET, attach_filter, program)


class Server(uvicorn.Server):
    """Uvicorn with graceful shutdown and limited connections.

    Uvicorn closes idle connections at once when it stops, and with its socket those that it has not accepted yet. A
    request that is already on its way through either gets no answer. Here all that wait are accepted first; then every
    answer says that the connection ends, and for a moment connections are left open to be asked once more.

    Parameters
    ----------
    ready
        Called when requests are accepted.
    hangup
        Called on SIGHUP, in a thread of its own; None leaves the signal alone.
    accepted_at_once
        Connections that are accepted before others are served.
    """

    shares_listener = False
    """Whether other processes accept connections too; they go on with it when this one stops."""

    def __init__(
        self,
        app: SafeHeaders,
        listener: socket.socket,
        guard: Guard,
        *,
        ready: Callable[[], None],
        hangup: Callable[[], object] | None,
        accepted_at_once: int = ACCEPTED_AT_ONCE,
    ) -> None:
        config = uvicorn.Config(
            app,
            http=partial(GuardedProtocol, guard=guard),  # type: ignore[arg-type]
            ws="none",
            lifespan="on",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=accepted_at_once,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        super().__init__(config)
        limit_logs()
        self._app = app
        self._listener = listener
        self._guard = guard
        self._ready = ready
        self._hangup = hangup
        self._reloading = ThreadPoolExecutor(1, "reload")

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        super().run(sockets or [self._listener])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listener.listen(_BACKLOG)  # asyncio has set it to the number that it accepts at once
        if self._hangup is not None and hasattr(signal, "SIGHUP"):  # not on Windows
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGHUP, self._reloading.submit, self._hangup)
        self._ready()

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS == 0:
            self._guard.connections.expire(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.stopping = True
        await self._accept_the_last(sockets or [])
        # Rounds and not seconds: a process that is held up reads what has come in meanwhile before it closes anything.
        for _ in range(_FAREWELL_ROUNDS):
            if not self.server_state.connections or self.force_exit:
                break
            await asyncio.sleep(_ROUND_SECONDS)
        await super().shutdown(sockets)

    async def _accept_the_last(self, sockets: list[socket.socket]) -> None:
        """Accept the connections that wait, and no more from then on."""
        for listener in sockets if not self.shares_listener else ():
            ignore_new_connections(listener)
        await asyncio.sleep(_HANDSHAKE_SECONDS)
        loop = asyncio.get_running_loop()
        for listener in sockets:
            with suppress(NotImplementedError):  # on Windows
                loop.remove_reader(listener)
        await asyncio.sleep(0)  # asyncio drops what it has just accepted if its server is closed in the same round
        accepted = []
        for listener in sockets:
            with suppress(OSError):  # there are no more
                while True:
                    accepted.append(listener.accept()[0])
        for server in self.servers:
            server.close()
        for connection in accepted:
            await loop.connect_accepted_socket(self._protocol, connection)

    def _protocol(self) -> asyncio.Protocol:
        return self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
