"""Access control, and security headers for browsers."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import re
import socket
from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from multidomain.errors import ConfigError, quoted
from multidomain.serve.errors import ApiError

TOKEN_VARIABLE = "MULTIDOMAIN_TOKEN"
AUTHORISED = "multidomain.authorised"  # in the scope of a request that carries the token
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
_PORT = re.compile(r":\d*$")
SAFE_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]


def token_from_environment() -> str | None:
    """Return the token that requests must carry, or None if none is required."""
    token = os.environ.get(TOKEN_VARIABLE)
    if token is None:
        return None
    if not token or not all("!" <= character <= "~" for character in token):
        what = "is empty" if not token else "holds whitespace or non-ASCII characters, which a header cannot carry"
        raise ConfigError(f"{TOKEN_VARIABLE} {what}. Set it to a token, or unset it to serve without one.")
    return token


def is_this_machine_only(listener: socket.socket) -> bool:
    """Tell whether nobody on another machine can connect; the address decides, whatever name it was given by."""
    return ipaddress.ip_address(listener.getsockname()[0]).is_loopback


def own_hosts(host: str, listener: socket.socket) -> tuple[str, ...]:
    """Return the names under which a server of this machine alone is asked, as the header ``Host`` has them."""
    given = [host, listener.getsockname()[0]]
    names = [f"[{name}]" if ":" in name else name for name in given]
    return tuple(dict.fromkeys([*_LOOPBACK_NAMES, *(name.lower() for name in names)]))


class OwnHostsOnly:
    """Refuses requests to a host name other than the server's own.

    A web page can let its own name point to 127.0.0.1 (DNS rebinding). The browser of someone on this machine then
    takes the server for a part of that page and lets the page read the answers. It still sends the page's name.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app = app
        self._hosts = tuple(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        asked = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if asked and all(_PORT.sub("", host).lower() in self._hosts for host in asked):
            await self._app(scope, receive, send)
            return
        error = ApiError(
            421,
            "unknown_host",
            f"This server has no token, so it answers only as {quoted(self._hosts)}, and the header 'Host' of the "
            f"request is {ascii(asked[0][:100]) if asked else 'missing'}. Use one of these names, or set "
            f"{TOKEN_VARIABLE} and start the server again.",
        )
        await error.response()(scope, receive, send)


class TokenRequired:
    """Refuses requests that do not carry the token, except to some open paths."""

    def __init__(self, app: ASGIApp, token: str, open_paths: Collection[str]) -> None:
        self._app = app
        self._digest = _digest(token.encode())
        self._open_paths = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._is_authorised(scope):
            scope[AUTHORISED] = True
        if scope["type"] != "http" or scope["path"] in self._open_paths or AUTHORISED in scope:
            await self._app(scope, receive, send)
            return
        error = ApiError(
            401,
            "unauthorized",
            "This server requires a token. Send it in the header 'Authorization: Bearer TOKEN'.",
            headers={"WWW-Authenticate": 'Bearer realm="multidomain"'},
        )
        await error.response()(scope, receive, send)

    def _is_authorised(self, scope: Scope) -> bool:
        scheme, _, given = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
        # Digests have a fixed length, so that the comparison time does not reveal the token's length.
        return hmac.compare_digest(_digest(given.strip()), self._digest) and scheme.lower() == b"bearer"


class SafeHeaders:
    """Adds the headers to every answer; while the server stops, also the one that ends the connection.

    A client that keeps its connection then knows that the next request needs a new one, before it has sent it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.stopping = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message["headers"], *SAFE_HEADERS]
                if self.stopping and (b"connection", b"close") not in headers:
                    headers.append((b"connection", b"close"))
                message = {**message, "headers": headers}
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
