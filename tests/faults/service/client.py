"""A small HTTP client that notices every lost answer."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from serving import TOKEN

_MOST_SECONDS = 30.0


@dataclass(frozen=True)
class Response:
    status: int
    closes: bool
    body: bytes


def request_of(path: str, body: Any = None, *, kind: str = "application/json", token: str = TOKEN) -> bytes:
    """Return a request as it goes over the wire: POST with a body, or GET without."""
    method = "GET" if body is None else "POST"
    content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {token}"]
    lines += [f"Content-Type: {kind}", f"Content-Length: {len(content)}"] if content else []
    return "\r\n".join([*lines, "", ""]).encode() + content


class Client:
    """One client with at most one connection, which is kept for as long as the server keeps it."""

    def __init__(self, port: int, source: str = "127.0.0.1") -> None:
        self._port, self._source = port, source
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def connect(self) -> None:
        """Connect, unless it is connected."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(
                "127.0.0.1", self._port, local_addr=(self._source, 0), limit=2**20
            )

    async def ask(self, request: bytes) -> Response:
        """Return the answer; OSError or EOFError if there is none."""
        await self.connect()
        assert self._streams
        reader, writer = self._streams
        async with asyncio.timeout(_MOST_SECONDS):
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
            body = await reader.readexactly(length)
        response = Response(int(head.split(b" ", 2)[1]), b"connection: close" in head, body)
        if response.closes:
            self.close()
        return response

    def close(self) -> None:
        """End the connection, if there is one."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
