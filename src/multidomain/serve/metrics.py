"""Metrics of the service, in the Prometheus text format."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence

import numpy as np
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_OTHER = "other"
_MOST_PATHS, _MOST_STATUS = 32, 599
CLIENT_LEFT = 499  # before the answer began

COUNTS = np.dtype(
    [
        ("requests", np.int64, (_MOST_PATHS, _MOST_STATUS + 1)),
        ("seconds", np.int64, (_MOST_PATHS, len(_SECONDS) + 1)),
        ("seconds_sum", np.float64, _MOST_PATHS),
        ("batch_texts", np.int64, len(_TEXTS) + 1),
        ("batch_texts_sum", np.int64),
        ("texts", np.int64),
        ("in_flight", np.int64),
        ("waiting", np.int64),
    ]
)
"""What one worker counts: one row of an array that all workers may share."""


class Metrics:
    """What the service has done since it started: the sums over all of its workers.

    A worker writes to its own row alone, so that no lock is needed, and the counts of one that died stay.

    Parameters
    ----------
    paths
        Paths with a label of their own. All others share one, since clients could make up any number of them.
    counts
        One row of `COUNTS` for each worker.
    worker
        Whose row is written to.
    """

    def __init__(self, paths: Sequence[str], counts: np.ndarray, worker: int = 0) -> None:
        self._paths = {path: i for i, path in enumerate(sorted({*paths, _OTHER}))}
        assert len(self._paths) <= _MOST_PATHS
        self._all = counts
        self._own = counts[worker : worker + 1]
        self._own["in_flight"] = self._own["waiting"] = 0  # of one that died

    def began(self) -> None:
        """Note that a request came."""
        self._own["in_flight"] += 1

    def ended(self, path: str, status: int, seconds: float) -> None:
        """Note that a request was answered."""
        i = self._paths.get(path, self._paths[_OTHER])
        self._own["in_flight"] -= 1
        self._own["requests"][0, i, status] += 1
        self._own["seconds"][0, i, bisect_left(_SECONDS, seconds)] += 1
        self._own["seconds_sum"][0, i] += seconds

    def batch(self, n_texts: int) -> None:
        """Note that so many texts were predicted together."""
        self._own["batch_texts"][0, bisect_left(_TEXTS, n_texts)] += 1
        self._own["batch_texts_sum"] += n_texts

    def predicted(self, n_texts: int) -> None:
        """Note that so many texts were answered, in batches or in files."""
        self._own["texts"] += n_texts

    def waiting(self, n_texts: int) -> None:
        """Note how many texts wait now."""
        self._own["waiting"] = n_texts

    def text(self) -> str:
        """Return all of it."""
        return "\n".join([*self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        total = {name: self._all[name].sum(axis=0) for name in COUNTS.names or ()}
        yield from _head("requests_total", "counter", "Requests answered, by path and status.")
        for path, i in self._paths.items():
            for status in total["requests"][i].nonzero()[0]:
                labels = f'path="{path}",status="{status}"'
                yield f"multidomain_requests_total{{{labels}}} {total['requests'][i, status]}"
        yield from _head("request_seconds", "histogram", "Response time, by path.")
        for path, i in self._paths.items():
            if total["seconds"][i].any():
                counts, sum_ = total["seconds"][i], total["seconds_sum"][i]
                yield from _histogram("request_seconds", _SECONDS, counts, sum_, f'path="{path}"')
        yield from _head("requests_in_flight", "gauge", "Requests in progress.")
        yield f"multidomain_requests_in_flight {total['in_flight']}"
        yield from _head("texts_predicted_total", "counter", "Texts that got a prediction.")
        yield f"multidomain_texts_predicted_total {total['texts']}"
        yield from _head("batch_texts", "histogram", "Batch size, in texts.")
        yield from _histogram("batch_texts", _TEXTS, total["batch_texts"], total["batch_texts_sum"])
        yield from _head("texts_waiting", "gauge", "Texts in the queue.")
        yield f"multidomain_texts_waiting {total['waiting']}"


class Measured:
    """Counts and times every request of an app."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = CLIENT_LEFT

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        began = time.perf_counter()
        self._metrics.began()
        try:
            await self._app(scope, receive, send_and_note)
        finally:
            self._metrics.ended(scope["path"], status, time.perf_counter() - began)


def _head(name: str, kind: str, help_: str) -> tuple[str, str]:
    return f"# HELP multidomain_{name} {help_}", f"# TYPE multidomain_{name} {kind}"


def _histogram(name: str, bounds: Sequence[float], counts: np.ndarray, sum_: float, labels: str = "") -> Iterator[str]:
    """Yield how many values lie at or below each bound, and their sum."""
    below = 0
    before, inside = (f"{labels},", f"{{{labels}}}") if labels else ("", "")
    for bound, count in zip([*bounds, float("inf")], counts.tolist(), strict=True):
        below += count
        le = "+Inf" if bound == float("inf") else f"{bound:g}"
        yield f'multidomain_{name}_bucket{{{before}le="{le}"}} {below}'
    yield f"multidomain_{name}_sum{inside} {sum_:.9g}"
    yield f"multidomain_{name}_count{inside} {below}"
