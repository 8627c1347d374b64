"""Several workers on one socket: one metrics page, one model, and none that is missed when it dies."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from serving import TOKEN, Server, serving

from multidomain.serve.limits import Limits

Run = Callable[..., tuple[int, str, str]]
PREDICTED = 'multidomain_requests_total{path="/v1/predict",status="200"}'


@pytest.fixture(scope="module")
def two(model_folder: Path) -> Iterator[Server]:
    with serving(model_folder, "--workers", "2") as server:
        yield server


def workers_of(server: Server) -> list[int]:
    return children_of(server.process.pid)


def children_of(supervisor: int) -> list[int]:
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    return [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def predict(server: Server) -> float:
    """Return the confidence of a prediction, over a new connection."""
    answer = httpx.post(f"{server.url}/v1/predict", json={"text": "a delightful novel", "domain": "books"}, timeout=20)
    return round(answer.raise_for_status().json()["predictions"][0]["confidence"], 4)


def predicted(server: Server) -> int:
    found = re.search(rf"^{re.escape(PREDICTED)} (\d+)$", httpx.get(f"{server.url}/metrics").text, re.MULTILINE)
    return int(found[1]) if found else 0


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_any_worker_tells_the_metrics_of_all(two: Server) -> None:
    first, second = workers_of(two)
    before = predicted(two)
    for served, by_nobody in ((3, first), (5, second)):
        with stopped(by_nobody):
            for _ in range(served):
                predict(two)
    for silent in (first, second):
        with stopped(silent):
            assert predicted(two) == before + 8


def test_a_worker_that_dies_is_logged_and_started_again(model_folder: Path) -> None:
    with serving(model_folder, "--workers", "2", complaint="was ended by signal 9") as server:
        first, second = workers_of(server)
        with stopped(second):
            predict(server)
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: f"Worker 1 (process {first}) was ended by signal 9." in server.log)
        assert [predict(server) for _ in range(5)]
        assert predicted(server) == 6
        wait_until(lambda: len(workers_of(server)) == 2)
        assert server.process.stdout
        assert "serves in place of the one that died" in server.process.stdout.readline()
        with stopped(second):
            predict(server)
            assert predicted(server) == 7


def test_a_worker_that_is_told_to_stop_leaves_the_others_their_connections(model_folder: Path) -> None:
    with serving(model_folder, "--workers", "2", complaint="was ended by signal 15") as server:
        first, _ = workers_of(server)
        os.kill(first, signal.SIGTERM)
        wait_until(lambda: f"Worker 1 (process {first})" in server.log)
        assert len({predict(server) for _ in range(5)}) == 1
        wait_until(lambda: len(workers_of(server)) == 2)


def test_a_worker_that_is_started_again_brings_the_others_to_its_model(
    model_folder: Path, domain_specific_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "served"
    shutil.copytree(model_folder, folder)
    with serving(folder, "--workers", "2", complaint="was ended by signal 9") as server:
        first = workers_of(server)[0]
        before = predict(server)
        shutil.rmtree(folder)
        shutil.copytree(domain_specific_folder, folder)
        os.kill(first, signal.SIGKILL)
        assert server.process.stdout
        assert "serves in place of" in server.process.stdout.readline()
        assert server.process.stdout.readline().startswith(f"reloaded {folder}: lr")
        after = set()
        for pid in workers_of(server):
            with stopped(pid):
                after.add(predict(server))
    assert len(after) == 1
    assert before not in after


def test_no_worker_outlives_the_supervisor(model_folder: Path) -> None:
    with pytest.raises(AssertionError), serving(model_folder, "--workers", "2") as server:  # its exit code is not 0
        workers = workers_of(server)
        server.process.kill()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


def test_ctrl_c_of_a_terminal_reaches_all_processes_and_stops_them_gracefully(model_folder: Path) -> None:
    with serving(model_folder, "--workers", "2") as server, httpx.Client(base_url=server.url, timeout=20) as client:
        assert client.get("/healthz").status_code == 200
        for pid in [*workers_of(server), server.process.pid]:
            os.kill(pid, signal.SIGINT)
        wait_until(lambda: client.get("/healthz").headers.get("connection") == "close")


def test_ctrl_c_while_workers_start_leaves_no_traceback(model_folder: Path) -> None:
    command = [sys.executable, "-m", "multidomain", "serve", str(model_folder), "--port", "0", "--workers", "2"]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    wait_until(lambda: len(children_of(process.pid)) == 2)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")


def test_the_service_outlives_whoever_reads_what_it_prints(model_folder: Path) -> None:
    for workers in ("1", "2"):
        with serving(model_folder, "--workers", workers, token=TOKEN) as server:
            assert server.process.stdout
            server.process.stdout.close()
            for _ in range(2):
                reloaded = httpx.post(
                    f"{server.url}/-/reload", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=20
                )
                assert reloaded.status_code == 200
            assert httpx.get(f"{server.url}/healthz").status_code == 200


def test_what_is_wrong_with_the_folder_is_told_by_the_supervisor(tmp_path: Path, run: Run) -> None:
    code, _, err = run("serve", tmp_path, "--port", 0, "--workers", 2)
    assert code == 2
    assert "is not a model folder: it holds no model.json" in err
    assert "Traceback" not in err


def test_limits_on_connections_are_divided() -> None:
    share = Limits(max_connections=512, max_connections_per_client=3).share(2)
    assert (share.max_connections, share.max_connections_per_client) == (256, 2)
    assert share.max_waiting == Limits().max_waiting
