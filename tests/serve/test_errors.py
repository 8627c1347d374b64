"""Requests that cannot be answered: one shape, and messages that help."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving import TOKEN, Server, serving

LIMITS = {
    "--max-body-bytes": 5_000,
    "--max-texts": 3,
    "--max-text-length": 100,
    "--max-explain-length": 50,
    "--max-waiting": 4,
    "--batch-wait-ms": 700,
}


@pytest.fixture(scope="module")
def strict_server(model_folder: Path) -> Iterator[Server]:
    """A server with a token and small limits, that waits long for company."""
    options = [str(part) for option in LIMITS.items() for part in option]
    with serving(model_folder, *options, token=TOKEN) as server:
        yield server


@pytest.fixture(scope="module")
def strict(strict_server: Server) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=strict_server.url, headers=headers, timeout=30) as client:
        yield client


def error_of(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.json().keys() == {"error"}
    error = response.json()["error"]
    assert error["code"] == code
    assert {"code", "message"} <= error.keys() <= {"code", "message", "details"}
    return error


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ('{"text": "fine",\n "domain": }', "invalid_json", "Expecting value at line 2, column 12, near"),
        ("", "invalid_request", "the body is empty. Expected a JSON object such as"),
        ("[1]", "invalid_request", "the body is a list. Expected a JSON object such as"),
        ("null", "invalid_request", "the body is"),
        ("{}", "invalid_request", "give either 'text', one text, or 'texts', a list of them."),
        ('{"text": "a", "texts": ["b"]}', "invalid_request", "give either 'text'"),
        ('{"texts": []}', "invalid_request", "'texts' is an empty list"),
        ('{"texts": ["a", 3]}', "invalid_request", "'texts[1]': input should be a valid string, got 3."),
        ('{"text": null}', "invalid_request", "'text': input should be a valid string, got null."),
        ('{"txt": "a"}', "invalid_request", "'txt' is not a field. Did you mean 'text'?"),
        ('{"text": "a", "domain": ["x"]}', "invalid_request", "'domain': input should be a valid string, got a list."),
        ('{"texts": ["a", "b"], "domains": ["x"]}', "invalid_request", "there are 2 texts and 1 domains"),
        ('{"text": "a", "domains": ["x"]}', "invalid_request", "'domains' goes with 'texts'"),
        ('{"texts": ["a"], "domain": "x", "domains": ["x"]}', "invalid_request", "without 'domain'"),
        ('{"text": "a", "unknown_domain": "x"}', "invalid_request", "'unknown_domain': input should be 'shared' or"),
        ('{"text": " \\t"}', "blank_text", "'text' is blank."),
        ('{"texts": ["a", ""]}', "blank_text", "'texts[1]' is blank."),
        ('{"text": "\\ud800"}', "invalid_request", "half of a surrogate pair"),
        ('{"text": "a", "domain": "\\ud800"}', "invalid_request", "half of a surrogate pair"),
        ('{"text": "a", "\\ud800": 1}', "invalid_request", "unable to parse raw data as a unicode string"),
        (b'{"text": "\xff"}', "invalid_json", "can't decode byte 0xff in position 10"),
        ("[" * 5_000, "invalid_json", "The body cannot be read as JSON"),
        ('{"text": ' + "9" * 5_000 + "}", "invalid_json", "The body cannot be read as JSON"),
    ],
)
def test_a_body_that_cannot_be_used_says_where_and_what_was_expected(
    client: httpx.Client, body: str | bytes, code: str, message: str
) -> None:
    response = client.post("/v1/predict", content=body, headers={"Content-Type": "application/json"})
    assert message in error_of(response, 422, code)["message"]


def test_every_fault_of_a_body_is_named_at_once(client: httpx.Client) -> None:
    response = client.post("/v1/predict", json={"texts": [1, "a", None], "domain": 5})
    error = error_of(response, 422, "invalid_request")
    assert [fault["where"] for fault in error["details"]] == ["texts[0]", "texts[2]", "domain"]


def test_a_body_without_its_content_type_is_told_to_name_it(client: httpx.Client) -> None:
    response = client.post("/v1/predict", content='{"text": "a"}')
    assert "Content-Type: application/json" in error_of(response, 422, "invalid_request")["message"]


def test_paths_and_methods_that_are_not_there(client: httpx.Client) -> None:
    assert "There is nothing at /v2/predict." in error_of(client.get("/v2/predict"), 404, "not_found")["message"]
    error_of(client.get("/v1/predict/"), 404, "not_found")
    response = client.get("/v1/predict")
    assert "does not accept GET, only POST" in error_of(response, 405, "method_not_allowed")["message"]
    assert response.headers["allow"] == "POST"


@pytest.mark.parametrize(
    "authorization", [None, "", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", TOKEN]
)
@pytest.mark.parametrize("path", ["/v1/predict", "/v1/model", "/metrics", "/openapi.json", "/nowhere"])
def test_without_the_token_nothing_is_answered(strict_server: Server, authorization: str | None, path: str) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    response = httpx.get(strict_server.url + path, headers=headers)
    error_of(response, 401, "unauthorized")
    assert response.headers["www-authenticate"] == 'Bearer realm="multidomain"'


def test_with_the_token_all_is_answered_and_some_without(strict: httpx.Client, strict_server: Server) -> None:
    assert strict.get("/v1/model").status_code == 200
    assert strict.get("/v1/model", headers={"Authorization": f"bearer {TOKEN}"}).status_code == 200
    for path in ("/healthz", "/", "/page.js", "/page.css", "/server.js", "/icon.svg"):
        assert httpx.get(strict_server.url + path).status_code == 200
    document = strict.get("/openapi.json").json()
    assert document["paths"]["/v1/predict"]["post"]["security"] == [{"token": []}]
    assert "security" not in document["paths"]["/healthz"]["get"]


def test_with_the_token_any_name_of_the_server_is_answered(strict: httpx.Client) -> None:
    assert strict.get("/v1/model", headers={"Host": "models.example"}).status_code == 200


def test_limits_of_texts(strict: httpx.Client) -> None:
    error = error_of(strict.post("/v1/predict", json={"texts": ["a"] * 4}), 422, "too_many_texts")
    assert "'texts' holds 4 texts, and at most 3 are accepted at once." in error["message"]
    error = error_of(strict.post("/v1/predict", json={"texts": ["a", "b" * 101]}), 422, "text_too_long")
    assert "'texts[1]' has 101 characters, and at most 100 are accepted here." in error["message"]
    error = error_of(strict.post("/v1/explain", json={"text": "b" * 51}), 422, "text_too_long")
    assert "'text' has 51 characters, and at most 50" in error["message"]
    assert strict.post("/v1/predict", json={"texts": ["a", "b", "c" * 100]}).status_code == 200


def chunked(size: int) -> Iterator[bytes]:
    while size > 0:
        yield b"x" * min(1_000, size)
        size -= 1_000


@pytest.mark.parametrize("path", ["/v1/predict", "/v1/predict/csv"])
@pytest.mark.parametrize("size", [5_001, 3_000_000])
@pytest.mark.parametrize("announced", [True, False])
def test_a_body_beyond_the_limit_is_refused(strict: httpx.Client, path: str, size: int, announced: bool) -> None:
    content = b"x" * size if announced else chunked(size)
    response = strict.post(path, content=content, headers={"Content-Type": "application/json"})
    assert ("content-length" in response.request.headers) == announced
    error = error_of(response, 413, "body_too_large")
    assert "larger than 5,000 bytes" in error["message"]
    assert error["details"] == {"max_body_bytes": 5_000}


def test_a_body_at_the_limit_is_taken(strict: httpx.Client) -> None:
    body = json.dumps({"text": "fine"})
    response = strict.post(
        "/v1/predict", content=body + " " * (5_000 - len(body)), headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 200


def test_an_endless_body_is_answered_and_cut(strict_server: Server) -> None:
    head = (
        f"POST /v1/predict HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", strict_server.port), timeout=20) as connection:
        connection.sendall(head.encode())
        with pytest.raises(OSError):
            while time.monotonic() < began + 15:
                connection.sendall(b"400\r\n" + b"x" * 1024 + b"\r\n")
                time.sleep(0.002)
    assert time.monotonic() < began + 10


def test_an_announced_body_is_refused_before_it_is_sent(strict_server: Server) -> None:
    head = f"POST /v1/predict HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 99999999\r\n\r\n"
    with socket.create_connection(("127.0.0.1", strict_server.port), timeout=20) as connection:
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_when_too_much_waits_a_request_is_told_to_come_again(strict: httpx.Client) -> None:
    answers: list[httpx.Response] = []
    first = threading.Thread(
        target=lambda: answers.append(strict.post("/v1/predict", json={"texts": ["fine", "well", "good"]}))
    )
    first.start()  # it waits 0.7 s for company
    deadline = time.monotonic() + 0.6
    while "multidomain_texts_waiting 3" not in strict.get("/metrics").text:
        assert time.monotonic() < deadline
    response = strict.post("/v1/predict", json={"texts": ["fine", "well"]})
    assert "3 texts of other requests are queued" in error_of(response, 503, "too_busy")["message"]
    assert response.headers["retry-after"] == "1"
    company = strict.post("/v1/predict", json={"text": "fine"})
    first.join()
    assert [answers[0].status_code, company.status_code] == [200, 200]


def test_a_client_that_leaves_does_no_harm(strict_server: Server, strict: httpx.Client) -> None:
    head = f"POST /v1/predict HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 500\r\n\r\n{{"
    with socket.create_connection(("127.0.0.1", strict_server.port), timeout=20) as connection:
        connection.sendall(head.encode())
    deadline = time.monotonic() + 10
    while 'path="/v1/predict",status="499"} 1\n' not in strict.get("/metrics").text:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert strict.post("/v1/predict", json={"text": "fine"}).status_code == 200


def test_what_requests_hold_together_is_bounded(strict_server: Server, strict: httpx.Client) -> None:
    head = f"POST /v1/predict HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 5000\r\n\r\n"
    with ExitStack() as stack:
        for _ in range(16):  # 16 of the largest bodies, each but for one byte
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", strict_server.port), timeout=20))
            connection.sendall(head.encode() + b" " * 4_999)
        deadline = time.monotonic() + 10
        while "multidomain_requests_in_flight 17" not in strict.get("/metrics").text:  # they and this one
            assert time.monotonic() < deadline
        response = strict.post("/v1/predict", json={"text": "a delightful novel"})
        assert strict.get("/healthz").status_code == 200
        error = error_of(response, 503, "too_busy")
        assert error["message"].startswith("The bodies of other pending requests are too large")
    while strict.post("/v1/predict", json={"text": "fine"}).status_code == 503:
        assert time.monotonic() < deadline
