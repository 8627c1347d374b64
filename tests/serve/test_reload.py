"""SIGHUP or a request with the token replaces the model of a running server, and no request is lost."""

from __future__ import annotations

import http.client
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from serving import TOKEN, Server, serving

AUTHORISED = {"Authorization": f"Bearer {TOKEN}"}
WORKERS = pytest.mark.parametrize("workers", ["1", "2"])


def wait_for_method(client: httpx.Client, method: str) -> None:
    deadline = time.monotonic() + 20
    while client.get("/v1/model").json()["method"] != method:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def by_signal(server: Server, client: httpx.Client) -> None:
    server.process.send_signal(signal.SIGHUP)
    wait_for_method(client, "lr")


def by_request(server: Server, client: httpx.Client) -> None:
    response = client.post("/-/reload")
    assert (response.status_code, response.json()["method"]) == (200, "lr")


@WORKERS
@pytest.mark.parametrize("reload", [by_signal, by_request])
def test_the_model_is_replaced_while_requests_are_answered(
    model_folder: Path,
    domain_specific_folder: Path,
    tmp_path: Path,
    reload: Callable[[Server, httpx.Client], None],
    workers: str,
) -> None:
    folder = tmp_path / "served"
    shutil.copytree(model_folder, folder)
    confidences: list[float] = []
    faults: list[str] = []
    answered, ended = threading.Event(), threading.Event()

    def ask(url: str) -> None:
        with httpx.Client(base_url=url, timeout=20, headers=AUTHORISED) as client:
            while not ended.is_set():
                response = client.post("/v1/predict", json={"text": "a delightful novel", "domain": "books"})
                if response.status_code != 200:
                    faults.append(response.text)
                    return
                confidences.append(round(response.json()["predictions"][0]["confidence"], 4))
                answered.set()

    with (
        serving(folder, "--workers", workers, token=TOKEN) as server,
        httpx.Client(base_url=server.url, timeout=20, headers=AUTHORISED) as client,
    ):
        threads = [threading.Thread(target=ask, args=(server.url,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        assert answered.wait(timeout=20)
        shutil.rmtree(folder)
        shutil.copytree(domain_specific_folder, folder)
        reload(server, client)
        time.sleep(0.3)
        since = len(confidences)
        time.sleep(0.3)
        ended.set()
        for thread in threads:
            thread.join(timeout=20)
    assert faults == []
    assert confidences[0] != confidences[-1]
    assert set(confidences) == {confidences[0], confidences[-1]}
    assert set(confidences[since:]) == {confidences[-1]}  # no worker has kept the old one


@WORKERS
def test_a_reload_that_fails_says_why_and_leaves_the_model_in_place(
    model_folder: Path, tmp_path: Path, workers: str
) -> None:
    folder = tmp_path / "served"
    shutil.copytree(model_folder, folder)
    complaint = "was not reloaded, and the previous model is still being served"
    with (
        serving(folder, "--workers", workers, token=TOKEN, complaint=complaint) as server,
        httpx.Client(base_url=server.url, timeout=20, headers=AUTHORISED) as client,
    ):
        (folder / "model.json").write_text("{")
        refused = client.post("/-/reload")
        answers = [client.post("/v1/predict", json={"text": "a delightful novel"}).status_code for _ in range(4)]
    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (409, "not_reloaded")
    assert "model.json is cut short or damaged" in error["message"]
    assert error["message"].endswith("The previous model is still being served.")
    assert answers == [200] * 4


def test_a_request_to_reload_needs_the_token(model_folder: Path, server: Server) -> None:
    without = httpx.post(f"{server.url}/-/reload")
    assert (without.status_code, without.json()["error"]["code"]) == (403, "token_needed")
    with serving(model_folder, token=TOKEN) as guarded:
        for headers in ({}, {"Authorization": "Bearer another"}):
            refused = httpx.post(f"{guarded.url}/-/reload", headers=headers)
            assert (refused.status_code, refused.json()["error"]["code"]) == (401, "unauthorized")
        with_body = httpx.post(f"{guarded.url}/-/reload", headers=AUTHORISED, content=b"x")
        assert (with_body.status_code, with_body.json()["error"]["code"]) == (413, "unexpected_body")


def test_a_folder_that_cannot_be_loaded_leaves_the_model_in_place(model_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "served"
    shutil.copytree(model_folder, folder)
    with serving(folder, complaint="was not reloaded, and the previous model is still being served") as server:
        (folder / "model.json").write_text("{")
        server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 20
        while "was not reloaded" not in server.log:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert httpx.post(f"{server.url}/v1/predict", json={"text": "a delightful novel"}).status_code == 200


@WORKERS
def test_reloads_that_are_queued_when_the_server_stops_are_answered(model_folder: Path, workers: str) -> None:
    with serving(model_folder, "--workers", workers, token=TOKEN, complaint=None) as server:
        address = httpx.URL(server.url)
        clients = [http.client.HTTPConnection(address.host, address.port or 80, timeout=20) for _ in range(12)]
        for client in clients:
            client.request("POST", "/-/reload", headers=AUTHORISED)
        first = clients[0].getresponse().status
        server.process.terminate()
        statuses = [first, *(client.getresponse().status for client in clients[1:])]
    assert set(statuses) <= {200, 409, 503}


def test_a_hangup_while_the_model_is_loaded_does_no_harm(model_folder: Path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "multidomain", "serve", str(model_folder), "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while True:  # the port is opened before the model is loaded
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert time.monotonic() < deadline
        process.send_signal(signal.SIGHUP)
        assert process.stdout
        assert any(line.startswith("serving at ") for line in iter(process.stdout.readline, ""))
        process.terminate()
        assert process.wait(timeout=20) == 0
