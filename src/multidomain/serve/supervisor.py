"""Several worker processes on one socket: started, kept alive, reloaded and stopped together."""

from __future__ import annotations

import ctypes
import multiprocessing
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from multidomain.errors import ModelError, MultidomainError, Note, WorkerError
from multidomain.serve.metrics import COUNTS
from multidomain.serve.server import GRACE_SECONDS, ignore_new_connections, url_of
from multidomain.serve.setup import Operator, Reload, Setup
from multidomain.serve.worker import ASK_FOR_RELOAD, Loaded, Order, Reloaded, work

_RESTART_SECONDS = 1.0  # until one that died is started again
_RETRY_SECONDS = 10.0  # until one that could not start is started again
_STOP_SECONDS = GRACE_SECONDS + 5.0
_END_SECONDS = 5.0  # for the end of a process that has closed its pipe
_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@dataclass(eq=False)
class _Worker:
    index: int
    process: SpawnProcess
    pipe: Connection
    version: str | None = None  # of its model; None until it serves one
    reply: Loaded | MultidomainError | None = None

    def send(self, message: Any) -> None:
        with suppress(OSError):  # it is gone; the next wait notices
            self.pipe.send(message)


class Supervisor:
    """Workers that serve one model.

    They share the listening socket, so that a connection waits for whichever is free, and the counts of the metrics.
    A reload has two steps, so that they all serve the same model: each loads it, and only if all could, they switch.
    The supervisor itself loads no model.

    Parameters
    ----------
    setup
        Of each worker.
    """

    def __init__(self, setup: Setup, listener: socket.socket, n_workers: int, operator: Operator) -> None:
        self._setup, self._listener, self._operator = setup, listener, operator
        self._context = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
        self._counts = self._context.RawArray(ctypes.c_byte, n_workers * COUNTS.itemsize)
        self._n_workers = n_workers
        self._workers: dict[int, _Worker] = {}
        self._due: dict[int, float] = dict.fromkeys(range(n_workers), 0.0)  # when to start which
        self._asking: list[_Worker | None] = []  # who wants a reload; None is the operator
        self._reload = Reload(setup.folder, self._replace, operator)
        self._version: str | None = None
        self._is_up = self._is_stopping = self._is_forced = False
        self._signals, self._caught = self._context.Pipe(duplex=False)

    def run(self) -> None:
        """Serve until SIGTERM or Ctrl+C."""
        with self._catching_signals():
            try:
                while not self._is_stopping:
                    self._start_due()
                    self._wait(max(0.0, min(self._due.values()) - time.monotonic()) if self._due else None)
                    self._announce_once()
                    self._reload_if_asked()
            finally:
                self._stop()

    def _start_due(self) -> None:
        for index in [index for index, due in self._due.items() if due <= time.monotonic()]:
            del self._due[index]
            try:
                self._workers[index] = self._started(index)
            except OSError as error:  # no memory, or too many processes or files
                self._retry(index, WorkerError(f"A worker cannot be started: {error.strerror}."), _RETRY_SECONDS)

    def _started(self, index: int) -> _Worker:
        ours, theirs = self._context.Pipe()
        with theirs, _signals_blocked():
            arguments = (self._setup, self._listener, self._counts, index, theirs)
            process = self._context.Process(target=work, args=arguments, name=f"worker-{index + 1}")
            process.start()
        return _Worker(index, process, ours)

    def _retry(self, index: int, error: MultidomainError, seconds: float) -> None:
        """Start a worker again after some seconds, unless the server has never been up."""
        if not self._is_up:
            raise error
        self._due[index] = time.monotonic() + seconds
        self._operator.error(error)
        self._operator.warn(Note(f"Another worker is started in {seconds:.0f} s."))

    def _announce_once(self) -> None:
        ready = [worker.reply for worker in self._workers.values() if worker.version]
        if self._is_up or len(ready) < self._n_workers or not isinstance(ready[0], Loaded):
            return
        self._is_up = True
        described = f"{ready[0].described}, {self._n_workers} workers"
        self._operator.serving(self._setup.folder, described, url_of(self._listener))

    def _wait(self, seconds: float | None = None) -> None:
        """Wait for a signal or a worker, and take in what they say."""
        by_pipe = {worker.pipe: worker for worker in self._workers.values()}
        for pipe in wait([self._signals, *by_pipe], seconds):
            if pipe is self._signals:
                self._obey(self._signals.recv())
            else:
                assert isinstance(pipe, Connection)
                self._receive(by_pipe[pipe])

    def _obey(self, number: int) -> None:
        if number not in (signal.SIGINT, signal.SIGTERM):
            self._asking.append(None)
            return
        self._is_forced = self._is_stopping and number == signal.SIGINT
        self._is_stopping = True

    def _receive(self, worker: _Worker) -> None:
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            self._bury(worker)
            return
        if message == ASK_FOR_RELOAD:
            self._asking.append(worker)
            return
        worker.reply = message
        if worker.version is None and isinstance(message, Loaded):
            worker.version = message.version
            self._version = self._version or message.version
            if self._is_up:
                self._operator.tell(f"{_named(worker)} serves in place of the one that died.")
            if message.version != self._version:  # the folder was replaced since the others have loaded it
                self._asking.append(None)

    def _bury(self, worker: _Worker) -> None:
        worker.pipe.close()
        worker.process.join(_END_SECONDS)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
        del self._workers[worker.index]
        if self._is_stopping:
            return
        error = worker.reply if isinstance(worker.reply, MultidomainError) and worker.version is None else None
        error = error or WorkerError(f"{_named(worker)} {_ended(worker.process.exitcode)}.")
        self._retry(worker.index, error, _RETRY_SECONDS if worker.version is None else _RESTART_SECONDS)

    def _reload_if_asked(self) -> None:
        while self._asking and self._is_up and not self._is_stopping:  # others may ask meanwhile
            asking, self._asking = self._asking, []
            error = self._reload()
            for worker in asking:
                if worker is not None:
                    worker.send(Reloaded(error))

    def _replace(self) -> str:
        """Let all workers load the folder and switch to what it holds, or none of them."""
        workers = [worker for worker in self._workers.values() if worker.version is not None]
        loaded = self._replies(workers, Order.LOAD)
        try:
            described = self._agreed(workers, loaded)
        except MultidomainError:
            for worker in workers:
                worker.send(Order.DROP)
            raise
        self._version = loaded[0].version
        for worker in workers:
            worker.version = self._version
        self._replies(workers, Order.SWITCH)
        if any(worker.version not in (None, self._version) for worker in self._workers.values()):
            self._asking.append(None)  # one came up meanwhile, with what the folder held before
        return described

    def _agreed(self, workers: Sequence[_Worker], loaded: Sequence[Loaded]) -> str:
        """Return the description of the model that all have loaded, or raise why they have not."""
        if self._is_stopping:
            raise WorkerError("The server is stopping.")
        for worker in workers:
            if isinstance(worker.reply, MultidomainError):
                raise worker.reply
        if not workers or len(loaded) < len(workers):
            raise WorkerError("A worker died while the model was being loaded.", "Try again.")
        if len({one.version for one in loaded}) > 1:
            raise ModelError(f"{self._setup.folder} was replaced while it was being read.", "Try again.")
        return loaded[0].described

    def _replies(self, workers: Sequence[_Worker], order: Order) -> list[Loaded]:
        """Give an order, and return what those have replied that have done it and are still there."""
        for worker in workers:
            worker.reply = None
            worker.send(order)
        while not self._is_stopping and any(w.reply is None for w in workers if w in self._workers.values()):
            self._wait()
        return [worker.reply for worker in workers if isinstance(worker.reply, Loaded)]

    def _stop(self) -> None:
        """Let all workers answer what they have accepted, and end."""
        self._is_stopping = True
        ignore_new_connections(self._listener)
        self._listener.close()  # each worker has its own, and the last one to close its own refuses new connections
        for worker in self._workers.values():
            worker.send(Order.STOP)
            if worker.version is None:
                worker.process.terminate()
        until = time.monotonic() + _STOP_SECONDS
        while self._workers and not self._is_forced and (left := until - time.monotonic()) > 0:
            self._wait(left)
        for worker in self._workers.values():
            self._operator.warn(Note(f"{_named(worker)} was killed: it did not stop."))
            worker.process.kill()
            worker.process.join()

    @contextmanager
    def _catching_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, lambda n, _: self._caught.send(n)) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block what a terminal sends to all processes; a process that is started inherits that.

    Until it ignores them itself, Ctrl-C would end it with a traceback.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # multiprocessing starts it with the first process, and would unblock SIGINT
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _named(worker: _Worker) -> str:
    return f"Worker {worker.index + 1} (process {worker.process.pid})"


def _ended(code: int | None) -> str:
    return f"was ended by signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"
