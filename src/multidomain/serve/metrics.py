"""Metrics of the service, in the Prometheus text format."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_OTHER = "other"
CLIENT_LEFT = 499  # before the answer began


class Histogram:
    """How many values lie at or below each of some bounds, and their sum."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str, labels: str = "") -> Iterator[str]:
        """Yield the samples."""
        below = 0
        before = f"{labels}," if labels else ""
        for bound, count in zip([*self._bounds, float("inf")], self._counts, strict=True):
            below += count
            le = "+Inf" if bound == float("inf") else f"{bound:g}"
            yield f'{name}_bucket{{{before}le="{le}"}} {below}'
        inside = f"{{{labels}}}" if labels else ""
        yield f"{name}_sum{inside} {self._sum:.9g}"
        yield f"{name}_count{inside} {below}"


class Metrics:
    """What the service has done since it started.

    Parameters
    ----------
    paths
        Paths with a label of their own. All others share one, since clients could make up any number of them.
    """

    def __init__(self, paths: Collection[str]) -> None:
        self._paths = frozenset(paths)
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, Histogram] = {}
        self._batch_texts = Histogram(_TEXTS)
        self._texts = 0
        self._in_flight = 0

    def began(self) -> None:
        """Note that a request came."""
        self._in_flight += 1

    def ended(self, path: str, status: int, seconds: float) -> None:
        """Note that a request was answered."""
        self._in_flight -= 1
        path = path if path in self._paths else _OTHER
        self._requests[path, status] += 1
        self._seconds.setdefault(path, Histogram(_SECONDS)).add(seconds)

    def batch(self, n_texts: int) -> None:
        """Note that so many texts were predicted together."""
        self._batch_texts.add(n_texts)

    def predicted(self, n_texts: int) -> None:
        """Note that so many texts were answered, in batches or in files."""
        self._texts += n_texts

    def text(self, n_waiting: int) -> str:
        """Return all of it, with the number of texts that wait now."""
        return "\n".join([*self._lines(n_waiting), ""])

    def _lines(self, n_waiting: int) -> Iterator[str]:
        yield from _head("requests_total", "counter", "Requests answered, by path and status.")
        for (path, status), count in sorted(self._requests.items()):
            yield f'multidomain_requests_total{{path="{path}",status="{status}"}} {count}'
        yield from _head("request_seconds", "histogram", "Response time, by path.")
        for path, seconds in sorted(self._seconds.items()):
            yield from seconds.lines("multidomain_request_seconds", f'path="{path}"')
        yield from _head("requests_in_flight", "gauge", "Requests in progress.")
        yield f"multidomain_requests_in_flight {self._in_flight}"
        yield from _head("texts_predicted_total", "counter", "Texts that got a prediction.")
        yield f"multidomain_texts_predicted_total {self._texts}"
        yield from _head("batch_texts", "histogram", "Batch size, in texts.")
        yield from self._batch_texts.lines("multidomain_batch_texts")
        yield from _head("texts_waiting", "gauge", "Texts in the queue.")
        yield f"multidomain_texts_waiting {n_waiting}"


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
