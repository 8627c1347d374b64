"""A process that serves a model: from a setup to an app and its limits, and a server of one process."""

from __future__ import annotations

import gc
import signal
import socket
import sys
from types import FrameType
from typing import NoReturn

import numpy as np

from multidomain.serve.app import ReloadNow, create_app
from multidomain.serve.connections import Connections
from multidomain.serve.metrics import COUNTS
from multidomain.serve.protocol import Guard
from multidomain.serve.security import SafeHeaders
from multidomain.serve.served import Served, load_again, load_served
from multidomain.serve.server import Server, url_of
from multidomain.serve.setup import Operator, Reload, Setup
from multidomain.threads import use_threads

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def serve_alone(setup: Setup, listener: socket.socket, operator: Operator) -> None:
    """Serve a model in this process, until SIGTERM or Ctrl+C."""
    served = load_served(setup.folder, setup.method, setup.limits)

    def replace() -> str:
        served.replace(load_again(setup.folder, setup.method, setup.limits))
        exclude_from_collection()
        return str(served)

    reload = Reload(setup.folder, replace, operator)
    app, guard = prepared(setup, served, np.zeros(1, COUNTS), 0, reload)
    for number in _STOP_SIGNALS:
        signal.signal(number, _exit)
    Server(
        app,
        listener,
        guard,
        ready=lambda: operator.serving(setup.folder, str(served), url_of(listener)),
        hangup=reload,
    ).run()


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    """End the process; uvicorn raises a signal again when it has answered everything."""
    for other in _STOP_SIGNALS:  # a second one would disturb the end of the interpreter
        signal.signal(other, signal.SIG_IGN)
    sys.exit(0)


def prepared(
    setup: Setup, served: Served, counts: np.ndarray, worker: int, reload: ReloadNow
) -> tuple[SafeHeaders, Guard]:
    """Return what a `Server` needs; for the parameters see `create_app`."""
    use_threads(setup.threads)
    limits = setup.limits
    app = create_app(served, setup, counts, worker, reload)
    exclude_from_collection()
    connections = Connections(limits.max_connections, limits.max_connections_per_client)
    return app, Guard(connections, limits.header_timeout, setup.proxies)


def exclude_from_collection() -> None:
    """Exclude libraries and model from garbage collection, which paused requests for 0.3 s."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
