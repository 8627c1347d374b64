"""Starting and stopping: messages and exit codes, and no request without its answer."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from serving import Server, serving

from multidomain.data.corpus import Corpus
from multidomain.estimator import MultiDomainClassifier
from multidomain.model.model import Model

Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_on_sigterm_every_request_that_was_accepted_is_answered(
    model_folder: Path, offline: Model, corpus: Corpus, workers: str
) -> None:
    texts = corpus.documents[:200].tolist()
    expected = offline.predict_proba(texts, ["books"] * len(texts))
    outcomes: Counter[str] = Counter()
    faults: list[str] = []
    running = threading.Event()

    def ask_until_refused(server: Server, number: int) -> None:
        connection: http.client.HTTPConnection | None = None
        i = number
        while True:
            i = (i + 1) % len(texts)
            if connection is None:
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
                try:
                    connection.connect()
                except ConnectionRefusedError:
                    outcomes["refused"] += 1
                    return
            try:
                connection.request(
                    "POST",
                    "/v1/predict",
                    json.dumps({"text": texts[i], "domain": "books"}),
                    {"Content-Type": "application/json"},
                )
                response = connection.getresponse()
                answer = json.loads(response.read())["predictions"][0]
                assert abs(answer["confidence"] - expected[i].max()) < 1e-6
            except Exception as error:
                faults.append(repr(error))
                return
            outcomes["answered"] += 1
            if outcomes["answered"] >= 100:
                running.set()
            if response.will_close:
                connection.close()
                connection = None

    with serving(model_folder, "--workers", workers) as server:
        threads = [threading.Thread(target=ask_until_refused, args=(server, n)) for n in range(8)]
        for thread in threads:
            thread.start()
        assert running.wait(timeout=20) or faults
        server.process.terminate()
        for thread in threads:
            thread.join(timeout=30)
    assert faults == []
    assert outcomes["refused"] == 8
    assert outcomes["answered"] >= 100


def test_sigterm_during_a_long_answer_lets_it_end(model_folder: Path, corpus: Corpus) -> None:
    body = "text\n" + "".join(f'"{text}"\n' for text in corpus.documents.tolist() * 20)
    with serving(model_folder) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        connection.request("POST", "/v1/predict/csv", body, {"Content-Type": "text/csv"})
        server.process.terminate()
        response = connection.getresponse()
        table = response.read()
        connection.close()
    assert response.status == 200
    assert table.count(b"\n") == 24_001


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_that_is_stopped_has_not_failed(number: int, workers: str, model_folder: Path) -> None:
    with serving(model_folder, "--workers", workers) as server:
        server.process.send_signal(number)
        assert server.process.wait(timeout=30) == 0
        assert "Traceback" not in server.log and "stopped by" not in server.log


def test_missing_extra_says_what_to_install(model_folder: Path) -> None:
    code = (
        "import sys; sys.modules['fastapi'] = None; sys.argv = ['multidomain', 'serve', sys.argv[1]]; "
        "from multidomain.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code, str(model_folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "The service needs fastapi, which is not installed. Run: pip install 'multidomain[serve]'" in done.stderr


def test_a_port_in_use_is_told_with_the_way_out(model_folder: Path, run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, _, err = run("serve", model_folder, "--port", port)
    assert code == 2
    told = f"Cannot listen on 127.0.0.1, port {port}: address already in use. Choose another port (--port PORT), or"
    assert told in err and "(--port 0)" in err


def test_a_host_that_is_none_is_told(model_folder: Path, run: Run) -> None:
    code, _, err = run("serve", model_folder, "--host", "not an address", "--port", 0)
    assert code == 2
    assert "'not an address' is not an address of this machine" in err


def test_a_folder_without_a_model_is_refused(tmp_path: Path, run: Run) -> None:
    code, _, err = run("serve", tmp_path, "--port", 0)
    assert code == 2
    assert "is not a model folder: it holds no model.json" in err


def test_damaged_metrics_are_refused(model_folder: Path, tmp_path: Path, run: Run) -> None:
    shutil.copytree(model_folder, tmp_path / "m")
    (tmp_path / "m" / "metrics.json").write_text("{")
    code, _, err = run("serve", tmp_path / "m", "--port", 0)
    assert code == 2
    assert "metrics.json is cut short or damaged" in err


def test_a_model_of_vectors_is_refused(tmp_path: Path, run: Run) -> None:
    rows = sp.csr_matrix(np.eye(40, 5, dtype=np.float32) + 1)
    labels, domains = ["good", "bad"] * 20, ["a"] * 20 + ["b"] * 20
    MultiDomainClassifier(method="fa-lr").fit(rows, labels, domains=domains).model_.save(tmp_path / "m")
    code, _, err = run("serve", tmp_path / "m", "--port", 0)
    assert code == 2
    assert "was trained on vectors, and the service reads texts" in err


@pytest.mark.parametrize(("token", "message"), [("", "MULTIDOMAIN_TOKEN is empty"), ("a b", "holds whitespace")])
def test_a_token_that_cannot_be_one_is_refused(
    model_folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch, token: str, message: str
) -> None:
    monkeypatch.setenv("MULTIDOMAIN_TOKEN", token)
    code, _, err = run("serve", model_folder, "--port", 0)
    assert code == 2
    assert message in err


def test_limits_are_checked(model_folder: Path, run: Run) -> None:
    code, _, err = run("serve", model_folder, "--port", 0, "--max-texts", 0, "--max-batch", -1)
    assert code == 2
    assert "'max_texts': input should be greater than or equal to 1, got 0." in err
    assert "'max_batch'" in err


@pytest.mark.parametrize(("host", "token", "warns"), [("0.0.0.0", None, True), ("0.0.0.0", "t", False)])
def test_listening_to_others_without_a_token_warns(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, host: str, token: str | None, warns: bool
) -> None:
    if token:
        monkeypatch.setenv("MULTIDOMAIN_TOKEN", token)
    _, _, err = run("serve", tmp_path, "--host", host, "--port", 0)  # ends there: the folder holds no model
    assert ("warning: Listening on 0.0.0.0 without a token" in err) == warns
