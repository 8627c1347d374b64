"""A worker: one of several processes that serve a model on one socket, at the orders of a supervisor."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from multidomain.errors import MultidomainError, WorkerError
from multidomain.serve.metrics import COUNTS
from multidomain.serve.setup import Setup

if TYPE_CHECKING:
    from multidomain.serve.served import Served

ASK_FOR_RELOAD = "reload"


class Order(Enum):
    """What the supervisor tells a worker."""

    LOAD = "load"
    """Load the model folder again; answered with `Loaded` or an error."""
    SWITCH = "switch"
    """Serve what was loaded; answered with `Loaded`."""
    DROP = "drop"
    """Forget what was loaded."""
    STOP = "stop"
    """Answer what was accepted, and end."""


@dataclass(frozen=True)
class Loaded:
    """A worker has a model: its description, and its version (see `Served`)."""

    described: str
    version: str


@dataclass(frozen=True)
class Reloaded:
    """All workers were asked to reload: why they did not, or None."""

    error: MultidomainError | None


def work(setup: Setup, listener: socket.socket, counts: Any, worker: int, pipe: Connection) -> None:
    """Serve a model until the supervisor says otherwise or is gone; the body of a process.

    Parameters
    ----------
    counts
        Shared memory with one row of `COUNTS` for each worker.
    worker
        Which of the rows is its own.
    """
    for name in ("SIGINT", "SIGHUP"):  # a terminal sends them to all processes; the supervisor decides
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    # Here and not above: the supervisor imports this file, and has no use for torch.
    from multidomain.serve.process import prepared
    from multidomain.serve.served import load_again
    from multidomain.serve.server import Server

    class WorkerServer(Server):
        shares_listener = True

        def handle_exit(self, sig: int, frame: Any) -> None:
            if sig != signal.SIGINT:
                super().handle_exit(sig, frame)

    control = _Control(pipe)
    try:
        served = load_again(setup.folder, setup.method, setup.limits)
    except MultidomainError as error:
        control.send(error)
        return
    app, guard = prepared(setup, served, np.frombuffer(counts, COUNTS), worker, control.ask)
    server = WorkerServer(
        app, listener, guard, ready=lambda: control.send(_loaded(served)), hangup=None, accepted_at_once=1
    )

    def stop() -> None:
        server.should_exit = True

    threading.Thread(target=control.obey, args=(setup, served, stop), daemon=True).start()
    server.run()


class _Control:
    """The worker's end of the pipe to the supervisor."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._sending = threading.Lock()
        self._reloaded: SimpleQueue[MultidomainError | None] = SimpleQueue()
        self._next: Served | None = None
        self._is_over = False

    def send(self, message: Any) -> None:
        with self._sending, suppress(OSError):  # the supervisor is gone; `obey` ends the server
            self._pipe.send(message)

    def ask(self) -> MultidomainError | None:
        """Let all workers reload; return why they did not, or None. One thread may ask."""
        self.send(ASK_FOR_RELOAD)
        error = self._reloaded.get()
        if self._is_over:
            self._reloaded.put(error)  # for whoever asks next
        return error

    def obey(self, setup: Setup, served: Served, stop: Callable[[], None]) -> None:
        """Do as the supervisor says, until it says to stop or is gone."""
        with suppress(EOFError, OSError):
            while (order := self._pipe.recv()) is not Order.STOP:
                match order:
                    case Reloaded():
                        self._reloaded.put(order.error)
                    case Order.LOAD:  # in a thread of its own: meanwhile there may be an order to stop
                        threading.Thread(target=self._load, args=(setup,), daemon=True).start()
                    case Order.SWITCH:
                        self._switch(served)
                    case Order.DROP:
                        self._next = None
        self._is_over = True
        self._reloaded.put(WorkerError("The server is stopping."))
        stop()

    def _load(self, setup: Setup) -> None:
        from multidomain.serve.served import load_again

        try:
            self._next = load_again(setup.folder, setup.method, setup.limits)
        except MultidomainError as error:
            self.send(error)
        else:
            self.send(_loaded(self._next))

    def _switch(self, served: Served) -> None:
        from multidomain.serve.process import exclude_from_collection

        assert self._next is not None
        served.replace(self._next)
        self._next = None
        self.send(_loaded(served))
        exclude_from_collection()


def _loaded(served: Served) -> Loaded:
    return Loaded(str(served), served.version)
