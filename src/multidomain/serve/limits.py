"""What one request or client may ask for."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from multidomain.settings import Settings

_DIVIDED = ("max_connections", "max_connections_per_client")


class Limits(Settings):
    """Limits of requests, of the queue and of connections; a request beyond them is refused with a message."""

    max_body_bytes: int = Field(10_000_000, ge=1_000, description="maximum size of a request body, bytes")
    max_texts: int = Field(1_000, ge=1, description="maximum texts in one request")
    max_text_length: int = Field(100_000, ge=1, description="maximum length of a text, characters")
    max_explain_length: int = Field(10_000, ge=1, description="maximum length of an explained text, characters")
    max_explain_words: int = Field(2_000, ge=1, description="maximum length of an explained text, words")
    max_waiting: int = Field(2_000, ge=1, description="maximum texts in the queue")
    max_batch: int = Field(256, ge=1, description="maximum batch size, texts")
    batch_wait_ms: float = Field(2.0, ge=0, le=1_000, description="maximum batching delay, ms")
    header_timeout: int = Field(10, ge=1, description="maximum time to receive the head of a request, seconds")
    body_timeout: int = Field(60, ge=1, description="maximum time to receive the body of a request, seconds")
    max_connections: int = Field(512, ge=1, description="maximum open connections")
    max_connections_per_client: int = Field(128, ge=1, description="maximum open connections of one client address")

    def share(self, workers: int) -> Self:
        """Return the limits of one of several workers: connections, in total and of a client, are divided."""
        divided = {name: -(-getattr(self, name) // workers) for name in _DIVIDED}
        return self.model_copy(update=divided)
