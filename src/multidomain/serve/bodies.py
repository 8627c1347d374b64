"""Request bodies: read up to a size limit, and their texts validated."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from multidomain.errors import counted
from multidomain.features.tokens import tokenise
from multidomain.serve.errors import ApiError, too_busy
from multidomain.serve.limits import Limits

_LINGER_SECONDS = 2.0
_MOST_BODIES = 16  # of the largest size, of all requests together


def check_request_texts(texts: Sequence[str], limits: Limits, *, is_list: bool) -> None:
    """Refuse the texts of a request if they are too many, too long or blank.

    Parameters
    ----------
    is_list
        Whether the request holds a list, for the message.
    """
    if len(texts) > limits.max_texts:
        raise ApiError(
            422,
            "too_many_texts",
            f"'texts' holds {counted(len(texts), 'text')}, and at most {limits.max_texts:,} are accepted at once. "
            "Send several requests, or a table to /v1/predict/csv.",
            details={"max_texts": limits.max_texts},
        )
    for i, text in enumerate(texts):
        where = f"'texts[{i}]'" if is_list else "'text'"
        check_length(text, where, limits.max_text_length)
        if not text.strip():
            raise ApiError(422, "blank_text", f"{where} is blank. Give it some words, or drop it.")


def check_length(text: str, where: str, longest: int) -> None:
    """Refuse a text that is too long for what is asked."""
    if len(text) > longest:
        raise ApiError(
            422,
            "text_too_long",
            f"{where} has {len(text):,} characters, and at most {longest:,} are accepted here. Shorten or split it.",
            details={"max_length": longest},
        )


def check_words(text: str, longest: int) -> None:
    """Refuse a text of too many words, as the model counts them: there may be one in each character, or several."""
    n_words = len(tokenise([text]).ids)
    if n_words > longest:
        raise ApiError(
            422,
            "text_too_long",
            f"'text' has {n_words:,} words, and at most {longest:,} are accepted here. Shorten or split it.",
            details={"max_words": longest},
        )


@dataclass
class _Body:
    """What was read of a body so far."""

    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    is_more: bool = True

    def take(self, message: Message) -> None:
        """Add what has come."""
        self.parts.append(message.get("body", b""))
        self.size += len(self.parts[-1])
        self.is_more = message.get("more_body", False)

    def drop(self) -> None:
        """Forget what has come."""
        self.parts.clear()
        self.size = 0


class _ClientLeft(Exception):
    """The client has disconnected."""


class BodyLimit:
    """Reads the body of each request before the app sees it, and refuses one that is too large or too slow.

    A declared length that is too large is refused at once, a chunked body as soon as it exceeds the limit. The total
    size of all pending bodies is bounded too. On paths that take no body none is read.

    Parameters
    ----------
    paths
        Paths that take a body.
    bare_paths
        Paths that take none; a request with one is refused. To all others the app responds as if there were none.
    """

    def __init__(self, app: ASGIApp, limits: Limits, *, paths: Collection[str], bare_paths: Collection[str]) -> None:
        self._app = app
        self._max_bytes = limits.max_body_bytes
        self._seconds = limits.body_timeout
        self._paths = frozenset(paths)
        self._bare_paths = frozenset(bare_paths)
        self._held = 0  # bytes of requests that are not answered yet

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        announced = int(headers.get(b"content-length", b"0"))
        body = _Body(is_more=announced > 0 or b"transfer-encoding" in headers)
        try:
            if body.is_more and scope["path"] in self._bare_paths:
                raise _unexpected_body(scope["path"])
            if body.is_more and scope["path"] not in self._paths:
                await self._app(scope, _replayed(b"", receive), _closing(send))
                return
            await self._read_in_time(body, announced, receive)
            await self._app(scope, _replayed(b"".join(body.parts), receive), send)
        except ApiError as error:
            self._held -= body.size
            body.drop()
            await _refuse(error, body, scope, receive, send)
        except _ClientLeft:
            pass
        finally:
            self._held -= body.size

    async def _read_in_time(self, body: _Body, announced: int, receive: Receive) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                await self._read(body, announced, receive)
        except TimeoutError:
            limit = counted(self._seconds, "second")
            message = f"The body was not received within {limit}, the limit of this server. Send less at once."
            details = {"body_timeout": self._seconds}
            raise ApiError(408, "request_timeout", message, details=details) from None

    async def _read(self, body: _Body, announced: int, receive: Receive) -> None:
        """Gather a body, unless it becomes too large."""
        if announced > self._max_bytes:
            raise self._too_large()
        while body.is_more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _ClientLeft
            self._held -= body.size
            body.take(message)
            self._held += body.size
            if body.size > self._max_bytes:
                raise self._too_large()
            if body.size and self._held > _MOST_BODIES * self._max_bytes:
                raise too_busy("The bodies of other pending requests are too large.")

    def _too_large(self) -> ApiError:
        return ApiError(
            413,
            "body_too_large",
            f"The body is larger than {self._max_bytes:,} bytes, the limit of this server. Send it in parts.",
            details={"max_body_bytes": self._max_bytes},
        )


def _unexpected_body(path: str) -> ApiError:
    return ApiError(413, "unexpected_body", f"{path} takes no request body. Send the request without one.")


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return what hands over a body that was read already, and then what comes after it."""
    parts = [body]

    async def receive_again() -> Message:
        return {"type": "http.request", "body": parts.pop(), "more_body": False} if parts else await receive()

    return receive_again


def _closing(send: Send) -> Send:
    """Return what sends an answer after which the connection ends."""

    async def send_and_close(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
        await send(message)

    return send_and_close


async def _refuse(error: ApiError, body: _Body, scope: Scope, receive: Receive, send: Send) -> None:
    """Respond to a request whose body may not have been read to its end."""

    async def send_but_the_end(message: Message) -> None:
        await send({**message, "more_body": True} if message["type"] == "http.response.body" else message)

    await error.response()(scope, receive, _closing(send_but_the_end))
    # A client that is still sending would miss the response if the connection were closed. What it sends is
    # discarded, for a limited time.
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while body.is_more and (message := await receive())["type"] == "http.request":
                body.is_more = message.get("more_body", False)
    await send({"type": "http.response.body", "body": b""})
