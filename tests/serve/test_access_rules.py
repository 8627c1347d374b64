"""Who may pass: the rules themselves, each against every way to get them wrong, without a server around them."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from multidomain.errors import ConfigError
from multidomain.serve.security import (
    AUTHORISED,
    SAFE_HEADERS,
    TOKEN_VARIABLE,
    OwnHostsOnly,
    SafeHeaders,
    TokenRequired,
    is_this_machine_only,
    own_hosts,
    token_from_environment,
)

TOKEN = "s3cret-token"
Headers = list[tuple[bytes, bytes]]


class Inner:
    """The application behind a rule: answers 200, and keeps what it was called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, Any, Any]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.calls.append((scope, receive, send))
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"x-own", b"1")]})
            await send({"type": "http.response.body", "body": b"inner"})


async def receive() -> dict[str, Any]:
    return {"type": "http.request", "body": b""}


def asked(app: Any, *headers: tuple[bytes, bytes], path: str = "/v1/model", kind: str = "http") -> list[dict[str, Any]]:
    """What is sent for a request."""
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": kind, "path": path, "method": "GET", "headers": list(headers)}
    asyncio.run(app(scope, receive, send))
    return sent


def bearer(value: str) -> tuple[bytes, bytes]:
    return (b"authorization", value.encode("latin-1"))


@pytest.mark.parametrize("value", [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"BEARER  {TOKEN} "])
def test_the_token_opens_every_path_and_the_scope_says_so(value: str):
    inner = Inner()
    assert asked(TokenRequired(inner, TOKEN, ["/healthz"]), bearer(value))[0]["status"] == 200
    ((scope, received_by, _),) = inner.calls
    assert scope[AUTHORISED] is True
    assert received_by is receive


@pytest.mark.parametrize(
    "value",
    ["", "Bearer", "Bearer ", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}",
     f"Bearer {TOKEN[::-1]}", f"Bearer{TOKEN}", f"Bearer {TOKEN} {TOKEN}", "Bearer \xff"],
)  # fmt: skip
def test_anything_else_is_refused_and_reaches_nobody(value: str):
    inner = Inner()
    start, body = asked(TokenRequired(inner, TOKEN, ["/healthz"]), bearer(value))
    assert start["status"] == 401
    assert dict(start["headers"])[b"www-authenticate"] == b'Bearer realm="multidomain"'
    assert b'"unauthorized"' in body["body"]
    assert inner.calls == []
    assert asked(TokenRequired(inner, TOKEN, []))[0]["status"] == 401, "no header at all"


def test_open_paths_need_no_token_and_are_compared_whole():
    inner = Inner()
    app = TokenRequired(inner, TOKEN, ["/healthz"])
    assert asked(app, path="/healthz")[0]["status"] == 200
    assert AUTHORISED not in inner.calls[0][0]
    assert {asked(app, path=path)[0]["status"] for path in ("/healthz/", "/health", "/healthz2", "//healthz")} == {401}


@pytest.mark.parametrize(
    "rule", [lambda app: TokenRequired(app, TOKEN, []), lambda app: OwnHostsOnly(app, ["a"]), SafeHeaders]
)
def test_what_is_no_request_passes_as_it_is(rule: Any):
    """The lifespan of the application, which has neither path nor headers."""
    inner = Inner()

    async def send(message: Any) -> None: ...

    scope = {"type": "lifespan"}
    asyncio.run(rule(inner)(scope, receive, send))
    assert inner.calls == [(scope, receive, send)]


@pytest.mark.parametrize("hosts", [["own"], ["OWN:8000"], ["own:"], ["own", "Own:1"]])
def test_own_names_pass_with_any_port(hosts: list[str]):
    inner = Inner()
    headers = [(b"host", host.encode()) for host in hosts]
    assert asked(OwnHostsOnly(inner, ["own", "[::1]"]), (b"accept", b"evil"), *headers)[0]["status"] == 200
    assert inner.calls[0][1] is receive


@pytest.mark.parametrize("hosts", [[], ["evil"], ["own", "evil"], ["evil", "own"], ["own:x"], [":1"]])
def test_no_name_and_other_names_are_refused(hosts: list[str]):
    inner = Inner()
    start, body = asked(OwnHostsOnly(inner, ["own"]), *[(b"host", host.encode()) for host in hosts])
    assert start["status"] == 421
    assert b'"unknown_host"' in body["body"]
    assert inner.calls == []


def test_a_long_name_is_quoted_in_part():
    _, body = asked(OwnHostsOnly(Inner(), ["own"]), (b"host", b"e" * 101))
    assert b"'" + b"e" * 100 + b"'" in body["body"]


def test_every_answer_gets_the_headers_after_its_own():
    start, body = asked(SafeHeaders(Inner()))
    assert start["headers"] == [(b"x-own", b"1"), *SAFE_HEADERS]
    assert body == {"type": "http.response.body", "body": b"inner"}


def test_a_server_that_stops_ends_the_connection_once():
    app = SafeHeaders(Inner())
    app.stopping = True
    assert asked(app)[0]["headers"] == [(b"x-own", b"1"), *SAFE_HEADERS, (b"connection", b"close")]

    class Closing(Inner):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})

    app = SafeHeaders(Closing())
    app.stopping = True
    assert asked(app)[0]["headers"].count((b"connection", b"close")) == 1


@pytest.mark.parametrize(
    ("token", "what"), [("", "is empty"), ("a b", "holds whitespace"), ("caf\xe9", "non-ASCII"), ("\x7f", "n")]
)
def test_a_token_that_no_header_can_carry_is_refused(monkeypatch: pytest.MonkeyPatch, token: str, what: str):
    monkeypatch.setenv(TOKEN_VARIABLE, token)
    with pytest.raises(ConfigError, match=f"{TOKEN_VARIABLE} .*{what}"):
        token_from_environment()


def test_a_token_of_the_first_and_last_visible_characters(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(TOKEN_VARIABLE, "!~")
    assert token_from_environment() == "!~"
    monkeypatch.delenv(TOKEN_VARIABLE)
    assert token_from_environment() is None


def test_own_names_are_those_of_this_machine_and_what_was_given():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        assert is_this_machine_only(listener)
        assert own_hosts("Models.Local", listener) == ("localhost", "127.0.0.1", "[::1]", "models.local")
        assert own_hosts("::1", listener) == ("localhost", "127.0.0.1", "[::1]")
    with socket.socket() as listener:
        listener.bind(("0.0.0.0", 0))
        assert not is_this_machine_only(listener)
