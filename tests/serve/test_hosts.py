"""Under which names the server answers, so that no web page reaches it by DNS rebinding."""

from __future__ import annotations

import socket
from pathlib import Path

import httpx
import pytest
from serving import Server, serving

from multidomain.serve.security import own_hosts


def status_of(url: str, host: str) -> int:
    return httpx.get(f"{url}/v1/model", headers={"Host": host}).status_code


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:8000"])
def test_own_names_are_answered_with_any_port(server: Server, host: str) -> None:
    assert status_of(server.url, host) == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.2", ""]
)
@pytest.mark.parametrize("path", ["/", "/healthz", "/v1/model", "/nowhere"])
def test_other_names_are_refused_with_what_to_do(client: httpx.Client, host: str, path: str) -> None:
    response = client.get(path, headers={"Host": host})
    assert response.status_code == 421
    error = response.json()["error"]
    assert error["code"] == "unknown_host"
    assert (
        f"answers only as 'localhost', '127.0.0.1', '[::1]', and the header 'Host' of the request is '{host}'"
        in (error["message"])
    )
    assert "set MULTIDOMAIN_TOKEN and start the server again" in error["message"]
    assert response.headers["x-frame-options"] == "DENY"


def test_a_prediction_asked_for_under_another_name_is_not_made(client: httpx.Client) -> None:
    response = client.post("/v1/predict", json={"text": "fine"}, headers={"Host": "evil.example"})
    assert response.status_code == 421
    assert "predictions" not in response.text


def test_a_request_without_a_name_is_refused(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(b"GET /v1/model HTTP/1.0\r\n\r\n")
        answer = connection.makefile("rb").read()
    assert answer.split()[1] == b"421"
    assert b"'Host' of the request is missing" in answer


def test_a_server_for_other_machines_answers_to_any_name(model_folder: Path) -> None:
    with serving(model_folder, "--host", "0.0.0.0", complaint="Listening on 0.0.0.0 without a token") as server:
        assert status_of(server.url, "models.example") == 200


def test_the_name_that_was_given_is_an_own_name_and_so_is_its_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert own_hosts("My-Machine", listener) == ("localhost", "127.0.0.1", "[::1]", "my-machine")
        assert "[::ffff:1]" in own_hosts("::FFFF:1", listener)
