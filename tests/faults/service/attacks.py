"""Load, attacks and long runs on a real server process; each returns the figures of a record.

The tests run them in a short form, and in full with MULTIDOMAIN_FAULTS=long.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
from client import Client, Response, request_of
from serving import TOKEN, Server, serving, trained

from multidomain.data.named.registry import load_corpus
from multidomain.model.model import Model

TOLERANCE = 1e-6
_N_TEXTS = 500
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    clients: int
    load_seconds: float
    reloads: int
    slow_heads: int
    held_bodies: int
    attacked_seconds: float
    requests: int
    """Over which memory must stay flat, after a tenth as many to warm up."""
    options: tuple[str, ...] = ()
    """Of a server that is attacked."""


_FEW_CONNECTIONS = ("--max-connections", "64", "--max-connections-per-client", "16")
SHORT = Size(8, 3.0, 2, 300, 20, 3.0, 3_000, _FEW_CONNECTIONS)
LONG = Size(50, 60.0, 5, 2_000, 100, 60.0, 100_000)


@dataclass(frozen=True)
class Models:
    """Two models of the same texts whose answers differ, and those answers."""

    folders: tuple[Path, Path]
    requests: list[bytes]
    expected: tuple[np.ndarray, np.ndarray]  # (texts, classes) each
    classes: list[str]

    def difference(self, row: int, model: int, response: Response) -> float:
        """Return how far an answer is from a model's own prediction."""
        answer = json.loads(response.body)["predictions"][0]["probabilities"]
        return float(np.abs(self.expected[model][row] - [answer[name] for name in self.classes]).max())


def trained_models(folder: Path) -> Models:
    """Train the two, unless that was done before."""
    options = [["--method", "lr"], ["--method", "lr", "--set", "category=domain-specific"]]
    first, second = (trained(folder / str(i), option) for i, option in enumerate(options))
    corpus = load_corpus("demo")
    rows = np.random.default_rng(0).permutation(len(corpus))[:_N_TEXTS]
    texts, domains = corpus.documents[rows].tolist(), corpus.domains[rows].tolist()
    offline = [Model.load(path) for path in (first, second)]
    a, b = (model.predict_proba(texts, domains) for model in offline)
    assert np.abs(a - b).max(axis=1).min() > TOLERANCE, "each answer must tell which model it is of"
    requests = [request_of("/v1/predict", {"text": t, "domain": d}) for t, d in zip(texts, domains, strict=True)]
    return Models((first, second), requests, (a, b), [str(name) for name in offline[0].classes])


@dataclass
class _Seen:
    """What clients saw, and which models they could have seen: in odd epochs either, in even ones the one."""

    seconds: list[float] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    wrong: int = 0
    largest_difference: float = 0.0
    epoch: int = 0

    def check(self, models: Models, row: int, since: int, response: Response) -> None:
        if response.status != 200:
            self.lost.append(f"status {response.status}: {response.body[:200]!r}")
            return
        served = {m % 2 for epoch in range(since, self.epoch + 1) for m in (epoch // 2, (epoch + 1) // 2)}
        difference = min(models.difference(row, model, response) for model in served)
        self.largest_difference = max(self.largest_difference, difference)
        self.wrong += difference > TOLERANCE

    def figures(self) -> dict[str, Any]:
        p50, p99 = np.percentile(self.seconds, [50, 99]).tolist()
        return {
            "requests": len(self.seconds),
            "lost": len(self.lost),
            "wrong": self.wrong,
            "largest_difference": self.largest_difference,
            "p50_ms": round(1000 * p50, 1),
            "p99_ms": round(1000 * p99, 1),
            "max_ms": round(1000 * max(self.seconds), 1),
        }


def load(models: Models, size: Size, folder: Path, workers: int) -> dict[str, Any]:
    """Clients ask without pause while the model is replaced again and again, and until the server has stopped.

    A request is lost if it was sent over an established connection and got no answer, or one that is not 200.
    """
    seen, link = _Seen(), folder / "served"
    link.symlink_to(models.folders[0])
    with serving(link, "--workers", str(workers), token=TOKEN) as server:
        asyncio.run(_load(models, size, server, seen, link))
        server.process.wait(timeout=20)
    about = {"workers": workers, "clients": size.clients, "seconds": size.load_seconds, "reloads": seen.epoch // 2}
    return {**about, **seen.figures(), "first_lost": seen.lost[:3]}


async def _load(models: Models, size: Size, server: Server, seen: _Seen, link: Path) -> None:
    asking = [asyncio.create_task(_ask_until_refused(models, server, n, seen)) for n in range(size.clients)]
    for number in range(1, size.reloads + 1):
        await asyncio.sleep(size.load_seconds / (size.reloads + 1))
        new = link.with_name("next")
        new.symlink_to(models.folders[number % 2])
        new.replace(link)
        seen.epoch += 1
        await _reload(server, by_signal=number % 2 == 0)
        seen.epoch += 1
    await asyncio.sleep(size.load_seconds / (size.reloads + 1))
    server.process.terminate()
    await asyncio.gather(*asking)


async def _reload(server: Server, *, by_signal: bool) -> None:
    if by_signal:
        server.process.send_signal(signal.SIGHUP)
    else:
        response = await Client(server.port).ask(request_of("/-/reload", b""))
        assert response.status == 200, response.body
    assert server.process.stdout
    line = await asyncio.to_thread(server.process.stdout.readline)
    assert line.startswith("reloaded "), line


async def _ask_until_refused(models: Models, server: Server, start: int, seen: _Seen) -> None:
    client = Client(server.port)
    for row in islice(cycle(range(len(models.requests))), start * 7, None):
        try:
            await client.connect()
        except ConnectionRefusedError:
            return
        began, since = time.perf_counter(), seen.epoch
        try:
            response = await client.ask(models.requests[row])
        except (OSError, EOFError) as error:
            seen.lost.append(repr(error))
            return
        seen.seconds.append(time.perf_counter() - began)
        seen.check(models, row, since, response)


def slow(models: Models, size: Size, workers: int, *, own_address: bool) -> dict[str, Any]:
    """An honest client asks while others hold connections and bodies: from other addresses, or from its own."""
    seen = _Seen()
    options = ["--workers", str(workers), *size.options]
    with serving(models.folders[0], *options, token=TOKEN, complaint="connection") as server:
        memory = _memory(server)
        with _attackers(server, size, (1, 1) if own_address else (2, 21)):
            asyncio.run(_ask_for(models, size.attacked_seconds, server, seen))
        figures = {
            **{"workers": workers, "address": "its own" if own_address else "others"},
            **{"slow_heads": size.slow_heads, "held_bodies": size.held_bodies, "seconds": size.attacked_seconds},
            **seen.figures(),
            **{"memory_mb": [memory, _memory(server)], "log_bytes": len(server.log)},
        }
    return {**figures, "first_lost": seen.lost[:3]}


@contextmanager
def _attackers(server: Server, size: Size, addresses: tuple[int, int]) -> Iterator[None]:
    numbers = (server.port, size.slow_heads, size.held_bodies, *addresses)
    command = [sys.executable, str(_HERE / "attackers.py"), *map(str, numbers)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout and process.stdout.readline()
            yield
            assert process.poll() is None
        finally:
            process.kill()


async def _ask_for(models: Models, seconds: float, server: Server, seen: _Seen) -> None:
    """Ask over a connection that is kept, and over a new one, in turns."""
    kept, until = Client(server.port), time.perf_counter() + seconds
    for number, row in enumerate(cycle(range(len(models.requests)))):
        began = time.perf_counter()
        if began > until:
            break
        client = kept if number % 2 else Client(server.port)
        try:
            response = await client.ask(models.requests[row])
        except (OSError, EOFError) as error:
            seen.lost.append(repr(error))
            client.close()
            continue
        seen.seconds.append(time.perf_counter() - began)
        seen.check(models, row, 0, response)
        if client is not kept:
            client.close()
        await asyncio.sleep(0.01)
    kept.close()


def memory(models: Models, size: Size) -> dict[str, Any]:
    """Requests of every kind, over connections that are kept and some that are not: what is resident at each tenth."""
    resident = []
    began = time.perf_counter()
    with serving(models.folders[0], token=TOKEN) as server:
        for _ in range(11):
            asyncio.run(_ask_everything(models, size.requests // 10, server))
            resident.append(_memory(server))
    seconds = round(time.perf_counter() - began)
    return {"requests": size.requests, "seconds": seconds, "memory_mb": resident}


async def _ask_everything(models: Models, n_requests: int, server: Server) -> None:
    clients = 8
    await asyncio.gather(*(_ask_kinds(models, n_requests // clients, n, server) for n in range(clients)))


async def _ask_kinds(models: Models, n_requests: int, start: int, server: Server) -> None:
    client = Client(server.port)
    others = [
        request_of("/v1/predict", {"texts": ["a fine one"] * 20, "domain": f"unknown {start}"}),
        request_of("/v1/predict/csv", b"text,domain\n" + b"a light pan,kitchen\n" * 20, kind="text/csv"),
        request_of("/v1/explain", {"text": "a delightful novel", "domain": "books"}),
        request_of("/v1/predict", b"{"),
        request_of("/v1/predict", {"text": "fine"}, token="wrong"),
        request_of(f"/nowhere/{start}"),
        request_of("/metrics"),
    ]
    for number in range(n_requests):
        plain = number % 10
        request = models.requests[number % len(models.requests)] if plain else others[number // 10 % len(others)]
        response = await client.ask(request)
        assert response.status == 200 or not plain, response.body
        if number % 50 == 0:
            client.close()
    client.close()


def _memory(server: Server) -> float:
    """Return what the processes of a server have resident, in MB."""
    kilobytes = 0
    with suppress(FileNotFoundError):
        main = server.process.pid
        for pid in [main, *map(int, Path(f"/proc/{main}/task/{main}/children").read_text().split())]:
            status = Path(f"/proc/{pid}/status").read_text()
            kilobytes += int(status.partition("VmRSS:")[2].split()[0])
    return round(kilobytes / 1024, 1)
