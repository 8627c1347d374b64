"""Clients that hold what they were given: connections, half requests, bodies, CPU. Others are served meanwhile."""

from __future__ import annotations

import http.client
import json
import os
import resource
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from serving import TOKEN, Server, serving

OPEN_PATHS = ("/healthz", "/", "/page.js", "/page.css", "/icon.svg")
HALF_HEAD = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: "
CHUNKED = "Transfer-Encoding: chunked"
AUTHORISED = f"Authorization: Bearer {TOKEN}"
LONG_HAN_TEXT = "好" * 10_000  # each is a word, and there are no blanks


@contextmanager
def open_files(most: int) -> Iterator[None]:
    """Limit the open files of processes that are started meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module")
def guarded(model_folder: Path) -> Iterator[Server]:
    """A server with a token, small bodies and the usual 1,024 open files halved."""
    with ExitStack() as stack:
        with open_files(512):
            started = serving(model_folder, "--max-body-bytes", "5000", token=TOKEN, complaint="connection")
            running = stack.enter_context(started)
        yield running


@pytest.fixture(scope="module")
def hasty(model_folder: Path) -> Iterator[Server]:
    """A server that waits one second for a head or a body, and whose proxy is 127.0.0.9."""
    options = ["--header-timeout", "1", "--body-timeout", "1", "--max-connections-per-client", "3"]
    options += ["--trusted-proxy", "127.0.0.9", "--max-explain-length", "20000", "--max-explain-words", "20000"]
    with serving(model_folder, *options, token=TOKEN, complaint="connection") as server:
        yield server


def connected(server: Server, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=10, source_address=(source, 0))


def head(method: str, path: str, *headers: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode()


def held(stack: ExitStack, server: Server, sent: Sequence[bytes], source: str = "127.0.0.1") -> list[socket.socket]:
    """Open a connection for each beginning of a request, and leave it there."""
    connections = []
    for part in sent:
        connection = stack.enter_context(connected(server, source))
        connection.sendall(part)
        connections.append(connection)
    return connections


def answer_of(connection: socket.socket) -> tuple[int, dict[str, Any]]:
    """Return status and body of an answer, read to the end of the connection."""
    with connection.makefile("rb") as stream:
        top, _, body = stream.read().partition(b"\r\n\r\n")
    return int(top.split()[1]), json.loads(body)


def ask(server: Server, source: str = "127.0.0.1", **headers: str) -> tuple[int, float]:
    """Return the status of a prediction that the token allows, and how many seconds it took."""
    began = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10, source_address=(source, 0))
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", **headers}
    connection.request("POST", "/v1/predict", json.dumps({"text": "a delightful novel"}), headers)
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status, time.monotonic() - began


def cpu_seconds(server: Server) -> float:
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("framing", [CHUNKED, "Content-Length: 5000"])
def test_bodies_on_open_paths_are_refused_at_once_and_hold_nothing(guarded: Server, framing: str) -> None:
    start = b"1324\r\n" + b"x" * 4_900 if framing == CHUNKED else b"x" * 4_900
    with ExitStack() as stack:
        connections = held(
            stack, guarded, [head("GET", path, framing) + start for path in OPEN_PATHS * 8], source="127.0.0.2"
        )
        assert ask(guarded)[0] == 200
        for connection in connections:
            connection.settimeout(5)
            status, answer = answer_of(connection)
            assert (status, answer["error"]["code"]) == (413, "unexpected_body")


def test_an_unknown_path_is_told_without_reading_the_body(guarded: Server) -> None:
    with connected(guarded) as connection:
        connection.sendall(head("POST", "/nowhere", CHUNKED, AUTHORISED))
        assert answer_of(connection)[0] == 404


@pytest.mark.parametrize("honest", ["127.0.0.1", "127.0.0.2"])
def test_half_sent_heads_keep_nobody_out(guarded: Server, honest: str) -> None:
    before = len(guarded.log)
    with ExitStack() as stack:
        for source in ("127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"):
            held(stack, guarded, [HALF_HEAD] * 150, source)
        outcomes = [ask(guarded, honest) for _ in range(10)]
    assert [status for status, _ in outcomes] == [200] * 10
    assert max(seconds for _, seconds in outcomes) < 1
    assert len(guarded.log) - before < 1_000
    assert "Traceback" not in guarded.log


def test_a_connection_that_showed_the_token_outlasts_those_that_did_not(guarded: Server) -> None:
    kept = http.client.HTTPConnection("127.0.0.1", guarded.port, timeout=10, source_address=("127.0.0.6", 0))
    kept.request("GET", "/v1/model", headers={"Authorization": f"Bearer {TOKEN}"})
    kept.getresponse().read()
    same = kept.sock
    with ExitStack() as stack:
        held(stack, guarded, [HALF_HEAD] * 300, source="127.0.0.6")
        kept.request("GET", "/v1/model", headers={"Authorization": f"Bearer {TOKEN}"})
        assert kept.getresponse().status == 200
        assert kept.sock is same
    kept.close()


def test_invalid_requests_get_the_one_shape_and_one_line_in_the_log(guarded: Server) -> None:
    before = len(guarded.log)
    for _ in range(100):
        with connected(guarded) as connection:
            connection.sendall(b"\x00\x01\r\n\r\n")
            status, answer = answer_of(connection)
            assert (status, answer["error"]["code"]) == (400, "invalid_http")
        with connected(guarded) as connection:
            connection.sendall(head("GET", "/healthz", "Connection: Upgrade, close", "Upgrade: websocket"))
            assert connection.recv(12) == b"HTTP/1.1 200"
    assert len(guarded.log) - before < 1_000


def test_a_head_that_drips_is_cut(hasty: Server) -> None:
    began = time.monotonic()
    with connected(hasty) as connection, pytest.raises(OSError):
        connection.sendall(HALF_HEAD)
        while time.monotonic() < began + 8:
            connection.sendall(b"x")
            time.sleep(0.1)
    assert time.monotonic() < began + 6


def test_a_half_sent_head_is_told_why(hasty: Server) -> None:
    with connected(hasty) as connection:
        connection.sendall(HALF_HEAD)
        status, answer = answer_of(connection)
    assert (status, answer["error"]["code"]) == (408, "request_timeout")


def test_an_idle_connection_is_no_half_sent_head(hasty: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", hasty.port, timeout=10)
    for pause in (2.5, 0):
        connection.request("GET", "/healthz")
        assert connection.getresponse().read() == b'{"status":"ok"}'
        same = connection.sock
        time.sleep(pause)
    assert connection.sock is same
    connection.close()


def test_a_body_that_drips_is_told_why(hasty: Server) -> None:
    with connected(hasty) as connection:
        connection.sendall(head("POST", "/v1/predict", CHUNKED, AUTHORISED))
        for _ in range(15):
            connection.sendall(b"1\r\n \r\n")
            time.sleep(0.1)
        connection.sendall(b"0\r\n\r\n")
        status, answer = answer_of(connection)
    assert (status, answer["error"]["code"]) == (408, "request_timeout")
    assert "1 second" in answer["error"]["message"]


def test_a_body_that_goes_on_after_the_answer_is_cut(hasty: Server) -> None:
    began = time.monotonic()
    with connected(hasty) as connection, pytest.raises(OSError):
        connection.sendall(head("POST", "/v1/predict", CHUNKED))
        assert connection.recv(12) == b"HTTP/1.1 401"
        while time.monotonic() < began + 10:
            connection.sendall(b"1\r\n \r\n")
            time.sleep(0.1)
    assert time.monotonic() < began + 8


def test_forwarded_addresses_count_if_the_proxy_is_trusted(hasty: Server) -> None:
    pending = head("POST", "/v1/predict", "Content-Length: 9", AUTHORISED, "X-Forwarded-For: 10.0.0.1")
    with ExitStack() as stack:
        held(stack, hasty, [pending] * 3, source="127.0.0.9")
        assert ask(hasty, "127.0.0.9", **{"X-Forwarded-For": "10.0.0.1"})[0] == 503
        assert ask(hasty, "127.0.0.9", **{"X-Forwarded-For": "10.0.0.2"})[0] == 200
        assert ask(hasty, "127.0.0.8", **{"X-Forwarded-For": "10.0.0.1"})[0] == 200


def test_an_explanation_of_too_many_words_is_refused(server: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    before = cpu_seconds(server)
    body = json.dumps({"text": LONG_HAN_TEXT})
    connection.request("POST", "/v1/explain", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    error = json.loads(response.read())["error"]
    connection.close()
    assert cpu_seconds(server) - before < 1
    assert (response.status, error["code"], error["details"]) == (422, "text_too_long", {"max_words": 2_000})
    assert "10,000 words" in error["message"]


def test_an_explanation_ends_when_its_client_leaves(hasty: Server) -> None:
    body = json.dumps({"text": LONG_HAN_TEXT}).encode()
    request = head("POST", "/v1/explain", "Content-Type: application/json", f"Content-Length: {len(body)}", AUTHORISED)
    before = cpu_seconds(hasty)
    with ExitStack() as stack:
        held(stack, hasty, [request + body] * 3)  # one is computed, the others wait for it
        deadline = time.monotonic() + 10
        while cpu_seconds(hasty) - before < 0.3:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    time.sleep(2)
    after = cpu_seconds(hasty)
    time.sleep(1)
    assert cpu_seconds(hasty) - after < 0.2
    assert ask(hasty)[0] == 200
