"""`multidomain serve` under load: requests a second and latency, with every answer checked against the offline model.

Starts a server on a model folder in a process of its own. Clients with a connection each send one text a request, as
soon as they have the answer to the one before; first one client alone, then all of them at once. Appends one JSON
record to ``results/serve.jsonl``. Clients and server share the machine, so that with few cores the figures are lower
than a server alone would reach.

    multidomain train fdu-mtl --method fa-lr -o runs/fdu
    python benchmarks/serve_load.py runs/fdu --data fdu-mtl
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from multidomain.code import code_hash
from multidomain.data.corpus import Corpus
from multidomain.data.named.registry import load_corpus
from multidomain.errors import ConfigError, MultidomainWarning
from multidomain.experiments.records import append_record
from multidomain.model.model import Model
from multidomain.runs.machine import machine
from multidomain.threads import use_threads

RESULTS = Path(__file__).parents[1] / "results" / "serve.jsonl"
TOLERANCE = 1e-6


@dataclass
class Load:
    """What some clients saw."""

    clients: int
    wall: float = 0.0
    seconds: list[float] = field(default_factory=list)  # of each request that was answered
    errors: int = 0
    wrong: int = 0
    largest_difference: float = 0.0

    def summary(self) -> dict[str, Any]:
        p50, p99 = np.percentile(self.seconds, [50, 99]) if self.seconds else (np.nan, np.nan)
        kept = {name: value for name, value in asdict(self).items() if name not in ("seconds", "wall")}
        return kept | {
            "requests": len(self.seconds) + self.errors,
            "seconds": round(self.wall, 2),
            "requests_per_second": round(len(self.seconds) / self.wall, 1),
            "p50_ms": round(1000 * p50, 2),
            "p99_ms": round(1000 * p99, 2),
        }


@dataclass(frozen=True)
class Asked:
    """A request as it goes over the wire, and the probabilities of the offline model."""

    request: bytes
    expected: np.ndarray  # (classes,)


def main(
    model: Path,
    data: Annotated[str, typer.Option(help="Corpus whose texts are sent.")] = "demo",
    clients: int = 50,
    seconds: float = 60.0,
    alone_seconds: Annotated[float, typer.Option(help="How long one client asks alone.")] = 10.0,
    texts: Annotated[int, typer.Option(help="How many different texts.")] = 2_000,
    output: Path = RESULTS,
) -> None:
    use_threads(1)
    corpus = load_corpus(data)
    if not corpus.is_text:
        raise ConfigError(f"'{data}' has vectors, and the service reads texts.")
    offline = Model.load(model)
    asked = _asked(offline, corpus, texts)
    gc.collect()
    gc.freeze()  # a pause of the clients would be taken for one of the server
    with _serving(model) as port:
        asyncio.run(_ask(port, asked, offline.classes, 1, 1.0))  # warm up
        alone = asyncio.run(_ask(port, asked, offline.classes, 1, alone_seconds))
        together = asyncio.run(_ask(port, asked, offline.classes, clients, seconds))
    for load in (alone, together):
        shown = load.summary()
        print(
            f"{load.clients:>3} clients: {shown['requests']:,} requests, {load.errors} errors, {load.wrong} wrong "
            f"answers, {shown['requests_per_second']:,.0f} requests/s, p50 {shown['p50_ms']:.1f} ms, "
            f"p99 {shown['p99_ms']:.1f} ms",
            flush=True,
        )
    description = {"method": offline.method_name, "inputs": offline.features.n_inputs, "domains": len(offline.domains)}
    record = {
        "benchmark": "serve",
        "data": corpus.name,
        "texts": len(asked),
        "model": description,
        "alone": alone.summary(),
        "together": together.summary(),
        "code": code_hash(),
        "machine": machine(),
    }
    append_record(output, record)
    if alone.errors or alone.wrong or together.errors or together.wrong:
        sys.exit(1)


def _asked(offline: Model, corpus: Corpus, n_texts: int) -> list[Asked]:
    rows = np.random.default_rng(0).permutation(len(corpus))[:n_texts]
    documents, domains = corpus.documents[rows].tolist(), corpus.domains[rows].tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MultidomainWarning)  # the model may not know all domains of the corpus
        expected = offline.predict_proba(documents, domains)
    requests = (json.dumps({"text": t, "domain": d}).encode() for t, d in zip(documents, domains, strict=True))
    head = (
        b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    return [Asked(head % len(body) + body, p) for body, p in zip(requests, expected, strict=True)]


@contextmanager
def _serving(model: Path) -> Iterator[int]:
    """Run a server and yield its port."""
    command = [sys.executable, "-m", "multidomain", "serve", str(model), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        line = next(line for line in process.stdout if line.startswith("serving at "))
        yield int(line.split()[2].rpartition(":")[2])
    finally:
        process.terminate()
        process.wait()


async def _ask(port: int, asked: list[Asked], classes: tuple[Any, ...], clients: int, seconds: float) -> Load:
    """Let some clients ask for some seconds."""
    load = Load(clients)
    began = time.perf_counter()
    starts = [len(asked) * i // clients for i in range(clients)]
    await asyncio.gather(*(_client(port, asked, start, classes, began + seconds, load) for start in starts))
    load.wall = time.perf_counter() - began
    return load


async def _client(
    port: int, asked: list[Asked], start: int, classes: tuple[Any, ...], until: float, load: Load
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for one in islice(cycle(asked), start, None):
        began = time.perf_counter()
        if began > until:
            break
        try:
            writer.write(one.request)
            status, body = await _response(reader)
            load.seconds.append(time.perf_counter() - began)
        except (OSError, EOFError, ValueError):
            load.errors += 1
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            continue
        if status != 200:
            load.errors += 1
            load.seconds.pop()
            continue
        answer = json.loads(body)["predictions"][0]["probabilities"]
        difference = max(abs(answer[str(name)] - p) for name, p in zip(classes, one.expected.tolist(), strict=True))
        load.largest_difference = max(load.largest_difference, difference)
        load.wrong += difference > TOLERANCE
    writer.close()
    await writer.wait_closed()


async def _response(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
    return int(head.split(b" ", 2)[1]), await reader.readexactly(length)


if __name__ == "__main__":
    typer.run(main)
