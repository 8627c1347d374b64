"""What one request may ask for."""

from __future__ import annotations

from pydantic import Field

from multidomain.settings import Settings


class Limits(Settings):
    """Bounds of what is taken at once; beyond them a request is refused with a message."""

    max_body_bytes: int = Field(10_000_000, ge=1_000, description="largest body of a request")
    max_texts: int = Field(1_000, ge=1, description="most texts in one request")
    max_text_length: int = Field(100_000, ge=1, description="longest text, in characters")
    max_explain_length: int = Field(10_000, ge=1, description="longest text that is explained, in characters")
    max_waiting: int = Field(2_000, ge=1, description="most texts that wait for a prediction")
    max_batch: int = Field(256, ge=1, description="most texts of several requests that are predicted together")
    batch_wait_ms: float = Field(2.0, ge=0, le=1_000, description="how long a first text waits for company")
