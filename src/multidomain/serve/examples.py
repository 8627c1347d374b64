"""Examples for the OpenAPI document: requests, and error responses."""

from __future__ import annotations

from typing import Any

from multidomain.serve.schemas import ErrorResponse

PREDICT: dict[str, Any] = {
    "one text": {"value": {"text": "a delightful novel", "domain": "books"}},
    "no domain": {"value": {"text": "simply superb", "domain": None}},
    "several texts of one domain": {"value": {"texts": ["well made", "fell apart"], "domain": "kitchen"}},
    "one text in several domains": {
        "value": {"texts": ["light", "light"], "domains": ["books", "shoes"], "unknown_domain": "shared"}
    },
}
EXPLAIN: dict[str, Any] = {
    "the answer": {"value": {"text": "a delightful novel", "domain": "books"}},
    "no domain": {"value": {"text": "a delightful novel, and light", "domain": None}},
}
TABLE: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "text/csv": {
                "schema": {"type": "string"},
                "example": "text,domain\na delightful novel,books\nit fell apart,kitchen\n",
            }
        },
    }
}

_MESSAGES = {
    401: ("The token is missing or wrong.", "unauthorized", "This server requires a token."),
    403: (
        "The server has no token, without which this is not offered.",
        "token_needed",
        "This server has no token, so it is not reloaded over HTTP.",
    ),
    408: ("The body takes too long.", "request_timeout", "The body was not received within 60 seconds."),
    409: (
        "The model folder cannot be loaded, and the previous model is still being served.",
        "not_reloaded",
        "runs/reviews is not a model folder: it holds no model.json.",
    ),
    413: (
        "The body is too large, or no body is expected.",
        "body_too_large",
        "The body is larger than 10,000,000 bytes.",
    ),
    421: (
        "Without a token the server accepts only its own host names, such as localhost.",
        "unknown_host",
        "This server has no token, so it answers only as 'localhost', '127.0.0.1', '[::1]'.",
    ),
    422: ("The request cannot be used; the message says where and why.", "blank_text", "'text' is blank."),
    503: (
        "Too many requests are in progress; try again later.",
        "too_busy",
        "2,000 texts of other requests are queued.",
    ),
}
_HEADERS = {401: "WWW-Authenticate", 503: "Retry-After"}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the descriptions of some error answers."""
    described: dict[int | str, dict[str, Any]] = {}
    for status in statuses:
        description, code, message = _MESSAGES[status]
        described[status] = {
            "model": ErrorResponse,
            "description": description,
            "content": {"application/json": {"example": {"error": {"code": code, "message": message}}}},
        }
        if status in _HEADERS:
            described[status]["headers"] = {_HEADERS[status]: {"schema": {"type": "string"}, "required": True}}
    return described
