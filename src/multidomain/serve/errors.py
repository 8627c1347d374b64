"""Errors over HTTP: one shape for all of them, with a message that says where and what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from multidomain.errors import ConfigError, DataError, MultidomainError, did_you_mean

_CODES = {404: "not_found", 405: "method_not_allowed"}
_JSON_EXPECTED = 'Expected a JSON object such as {"text": "a delightful novel", "domain": null}'


def as_parameter(name: str, value: str | None) -> str:
    """Write a setting as a parameter of a request."""
    return f"'{name}'" if value is None or value.isupper() else f"'{name}={value}'"


class ApiError(Exception):
    """An error response.

    Parameters
    ----------
    status
        HTTP status.
    code
        Machine-readable; the message is for people.
    details
        The parts of the message, machine-readable.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        details: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.details = details
        self.headers = dict(headers or {})

    def response(self) -> Response:
        """Return the answer."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.details is not None:
            error["details"] = self.details
        # Pure ASCII: a message may quote what UTF-8 cannot hold.
        return Response(json.dumps({"error": error}), self.status, self.headers, "application/json")


def too_busy(what: str) -> ApiError:
    """Return the response to a request that would have to wait too long."""
    return ApiError(503, "too_busy", f"{what} Try again in a second.", headers={"Retry-After": "1"})


def handle_errors(app: FastAPI) -> None:
    """Make an app return every error in one shape."""
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(ConfigError, _input_error)
    app.add_exception_handler(DataError, _input_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _our_fault)


async def _api_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error.response()


async def _input_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, MultidomainError)
    return ApiError(422, "invalid_input", error.worded(as_parameter)).response()


async def _our_fault(request: Request, error: Exception) -> Response:
    message = "Internal server error. The server's log has the details; the request may be sent again."
    return ApiError(500, "internal", message).response()


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path
    match error.status_code:
        case 400:  # a body that json.loads refuses with something else than a JSONDecodeError
            why = str(error.__cause__ or error.detail)
            return ApiError(
                422, "invalid_json", f"The body cannot be read as JSON: {why}. {_JSON_EXPECTED}."
            ).response()
        case 404:
            message = f"There is nothing at {path}. /openapi.json lists what there is."
        case 405:
            allowed = (error.headers or {}).get("Allow", "")
            message = f"{path} does not accept {request.method}, only {allowed}."
        case _:
            message = str(error.detail)
    code = _CODES.get(error.status_code, "http_error")
    return ApiError(error.status_code, code, message, headers=error.headers).response()


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = error.errors()
    if faults[0]["type"] == "json_invalid":
        return _invalid_json(str(error.body), faults[0]).response()
    described = [_described(fault, _fields(request)) for fault in faults]
    message = "The request cannot be used: " + " ".join(fault["message"] for fault in described)
    return ApiError(422, "invalid_request", message, details=described).response()


def _invalid_json(body: str, fault: Any) -> ApiError:
    at = fault["loc"][1]
    line, column = body.count("\n", 0, at) + 1, at - (body.rfind("\n", 0, at) + 1) + 1
    near = body[max(0, at - 20) : at + 20]
    why = fault["ctx"]["error"]
    message = f"The body is not JSON: {why} at line {line}, column {column}, near {near!r}. {_JSON_EXPECTED}."
    return ApiError(422, "invalid_json", message, details={"line": line, "column": column})


def _fields(request: Request) -> list[str]:
    """Return the names that the body of this request may hold."""
    body = getattr(request.scope.get("route"), "body_field", None)
    return list(getattr(body.field_info.annotation, "model_fields", {})) if body else []


def _described(fault: Any, fields: Sequence[str]) -> dict[str, str]:
    """Return where a fault is and what is wrong there."""
    place, *inner = fault["loc"]
    where = _path(inner)
    if place == "body" and not inner and fault["type"] != "value_error":
        if fault["type"] == "missing":
            return {"where": "body", "message": f"the body is empty. {_JSON_EXPECTED}."}
        if isinstance(fault["input"], bytes):
            message = "the body was not sent as JSON. Add the header 'Content-Type: application/json'."
            return {"where": "body", "message": message}
        if fault["type"].startswith("model"):
            return {"where": "body", "message": f"the body is {_kind(fault['input'])}. {_JSON_EXPECTED}."}
    if fault["type"] == "extra_forbidden":
        return {"where": where, "message": f"'{where}' is not a field.{did_you_mean(where, fields)}"}
    message = fault["msg"].removeprefix("Value error, ")
    if not where:  # fields that do not go together
        return {"where": place, "message": f"{message.removesuffix('.')}."}
    if fault["type"] == "missing":
        return {"where": where, "message": f"'{where}' is missing."}
    return {"where": where, "message": f"'{where}': {message[0].lower() + message[1:]}, got {_kind(fault['input'])}."}


def _path(parts: Sequence[Any]) -> str:
    """Return ``texts[2]`` for a place inside the body."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).removeprefix(".")


def _kind(value: Any) -> str:
    """Return what was received, in JSON terms and short."""
    match value:
        case None:
            return "null"
        case bool() | int() | float():
            return f"{value!r}"[:40]
        case str():
            return ascii(value[:40])
        case list():
            return "a list"
    return "an object" if isinstance(value, dict) else type(value).__name__
