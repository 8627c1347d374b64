"""SIGHUP replaces the model of a running server, and no request is lost."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from pathlib import Path

import httpx
from serving import serving


def wait_for_method(client: httpx.Client, method: str) -> None:
    deadline = time.monotonic() + 20
    while client.get("/v1/model").json()["method"] != method:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_model_is_replaced_while_requests_are_answered(
    model_folder: Path, domain_specific_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "served"
    shutil.copytree(model_folder, folder)
    confidences: list[float] = []
    faults: list[str] = []
    answered, ended = threading.Event(), threading.Event()

    def ask(url: str) -> None:
        with httpx.Client(base_url=url, timeout=20) as client:
            while not ended.is_set():
                response = client.post("/v1/predict", json={"text": "a delightful novel", "domain": "books"})
                if response.status_code != 200:
                    faults.append(response.text)
                    return
                confidences.append(round(response.json()["predictions"][0]["confidence"], 4))
                answered.set()

    with serving(folder) as server, httpx.Client(base_url=server.url, timeout=20) as client:
        threads = [threading.Thread(target=ask, args=(server.url,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        assert answered.wait(timeout=20)
        shutil.rmtree(folder)
        shutil.copytree(domain_specific_folder, folder)
        server.process.send_signal(signal.SIGHUP)
        wait_for_method(client, "lr")
        time.sleep(0.3)
        ended.set()
        for thread in threads:
            thread.join(timeout=20)
    assert faults == []
    assert confidences[0] != confidences[-1]
    assert set(confidences) == {confidences[0], confidences[-1]}


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
