"""Several processes started by torchrun: all but the first print nothing, unless the first has nothing to say."""

from __future__ import annotations

import signal
import time

from multidomain.cli.console import err, out, print_error
from multidomain.errors import MultidomainError
from multidomain.processes import rank

_WAIT = 10  # seconds, in which torchrun ends this process if the first has failed too


def follow_quietly() -> None:
    """Print nothing from now on, and let signals end this process also while it waits for others."""
    out.quiet = err.quiet = True
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def print_if_alone(error: MultidomainError | OSError) -> None:
    """Print an error that the first process does not have; it says itself what is wrong with settings and data."""
    time.sleep(_WAIT)
    speak_up()
    print_error(error)


def speak_up() -> None:
    """Print from now on, and say who this is."""
    out.quiet = err.quiet = False
    err.print(f"process {rank()}:", style="red")
