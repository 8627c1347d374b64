"""What a server is started with, and how it tells whoever has started it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from multidomain.errors import MultidomainError, Note
from multidomain.serve.limits import Limits


@dataclass(frozen=True)
class Setup:
    """What a process that serves a model needs to know; it can be sent to another process.

    Parameters
    ----------
    folder, method
        The model; see `Model.load`.
    limits
        Of this process.
    token
        The token that requests must carry; None for no token.
    hosts
        Host names that are accepted, see `own_hosts`; None accepts any.
    proxies
        Proxies whose forwarded client addresses are believed; see `trusted_proxies`.
    threads
        How many threads numerical libraries may use.
    """

    folder: Path
    method: str | None
    limits: Limits
    token: str | None = None
    hosts: tuple[str, ...] | None = None
    proxies: frozenset[str] = frozenset()
    threads: int = 1


@dataclass(frozen=True)
class Operator:
    """Whoever has started the server, who is told what it does."""

    tell: Callable[[str], None]
    warn: Callable[[Note], None]
    error: Callable[[MultidomainError], None]

    def serving(self, folder: Path, described: str, url: str) -> None:
        """Tell that requests are accepted."""
        self.tell(f"{folder}: {described}")
        self.tell(f"serving at {url} (API: {url}/openapi.json); stop with Ctrl+C")


class Reload:
    """Replaces the model that is being served, and tells the operator; one at a time.

    Parameters
    ----------
    replace
        Loads the folder again and returns a description of the model; if it raises, the previous one is still served.
    """

    def __init__(self, folder: Path, replace: Callable[[], str], operator: Operator) -> None:
        self._folder = folder
        self._replace = replace
        self._operator = operator
        self._lock = threading.Lock()

    def __call__(self) -> MultidomainError | None:
        """Return why the previous model is still being served, None if it is not."""
        with self._lock:
            try:
                described = self._replace()
            except MultidomainError as error:
                self._operator.error(error)
                kept = f"{self._folder} was not reloaded, and the previous model is still being served."
                self._operator.warn(Note(kept))
                return error
            self._operator.tell(f"reloaded {self._folder}: {described}")
            return None
