"""Dynamic batching: concurrent requests are predicted together in one thread."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from multidomain.serve.errors import too_busy
from multidomain.serve.limits import Limits
from multidomain.serve.metrics import Metrics
from multidomain.serve.predictor import Answer, Predictor, Question
from multidomain.serve.threads import WorkerThread


@dataclass(frozen=True)
class _Waiting:
    question: Question
    answers: asyncio.Future[list[Answer]]
    since: float


class Batcher:
    """Collects the texts of concurrent requests and predicts them in batches.

    A batch starts as soon as the thread is free and either enough texts are queued or the first has waited for the
    maximum batching delay. So a lone request is hardly delayed, and batches grow under load. A request is never split.

    Parameters
    ----------
    thread
        Where the model predicts.
    """

    def __init__(self, predictor: Predictor, thread: WorkerThread, limits: Limits, metrics: Metrics) -> None:
        self._predictor = predictor
        self._limits = limits
        self._metrics = metrics
        self._thread = thread
        self._waiting: deque[_Waiting] = deque()
        self._arrived, self._full = asyncio.Event(), asyncio.Event()
        self._closing = False
        self._n_waiting = 0  # texts

    async def start(self) -> None:
        """Start the worker."""
        self._collector = asyncio.create_task(self._collect())

    async def close(self) -> None:
        """Predict what is queued, and stop."""
        self._closing = True
        self._arrived.set()
        self._full.set()
        await self._collector

    async def predict(self, question: Question) -> list[Answer]:
        """Return the predictions for one request's texts, or refuse it if the queue is full."""
        n_texts = len(question.texts)
        if self._waiting and self._n_waiting + n_texts > self._limits.max_waiting:
            raise too_busy(f"{self._n_waiting:,} texts of other requests are queued.")
        loop = asyncio.get_running_loop()
        waiting = _Waiting(question, loop.create_future(), loop.time())
        self._waiting.append(waiting)
        self._wait(n_texts)
        self._arrived.set()
        if self._n_waiting >= self._limits.max_batch:
            self._full.set()
        return await waiting.answers

    async def _collect(self) -> None:
        while True:
            if not self._waiting:
                if self._closing:
                    return
                self._arrived.clear()
                await self._arrived.wait()
                continue
            await self._delay()
            batch = self._taken()
            questions = [waiting.question for waiting in batch]
            answered = await self._thread.run(partial(self._predictor.answer, questions))
            for waiting, answers in zip(batch, answered, strict=True):
                if waiting.answers.done():  # its request was cancelled when the server stopped
                    continue
                if isinstance(answers, Exception):
                    waiting.answers.set_exception(answers)
                else:
                    waiting.answers.set_result(answers)

    async def _delay(self) -> None:
        """Wait until a batch is full or its first text has waited long enough."""
        until = self._waiting[0].since + self._limits.batch_wait_ms / 1000
        remaining = until - asyncio.get_running_loop().time()
        if remaining > 0 and self._n_waiting < self._limits.max_batch and not self._closing:
            self._full.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._full.wait(), remaining)

    def _taken(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        n_texts = 0
        while self._waiting and (not batch or n_texts + len(self._waiting[0].question.texts) <= self._limits.max_batch):
            batch.append(self._waiting.popleft())
            n_texts += len(batch[-1].question.texts)
        self._wait(-n_texts)
        self._metrics.batch(n_texts)
        return batch

    def _wait(self, n_texts: int) -> None:
        self._n_waiting += n_texts
        self._metrics.waiting(self._n_waiting)
