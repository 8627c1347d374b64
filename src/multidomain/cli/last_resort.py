"""The last resort: how a command ends that failed in a way nobody foresaw."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn, TypeVar

from multidomain.cli.console import err, print_error
from multidomain.errors import MultidomainError
from multidomain.files import out_of_space
from multidomain.version import __version__

DEBUG = "MULTIDOMAIN_DEBUG"

Error = TypeVar("Error", bound=BaseException)
Message = TypeVar("Message")


def try_to(tell: Callable[[Message], None], message: Message) -> None:
    """Tell the user, or nobody if the stream is full or closed."""
    with suppress(OSError, ValueError, SystemExit):  # rich exits when a pipe is broken
        tell(message)


def end_with(code: int, tell: Callable[[Error], None], error: Error) -> NoReturn:
    """Tell the user and exit, whatever has become of standard error."""
    try_to(tell, error)
    sys.exit(code)


def report_bug(error: BaseException) -> None:
    """Print one line for an unexpected error and write its traceback to a log file; MULTIDOMAIN_DEBUG=1 shows it."""
    if os.environ.get(DEBUG, "0") not in ("", "0"):
        traceback.print_exception(error)
        return
    what = " ".join(f"{type(error).__name__}: {error}".split())
    what = what if len(what) <= 300 else f"{what[:300]} ..."
    try:
        where = f"The traceback is in {_logged(error)}; please report it with that file and the command."
    except OSError as full:
        where = f"Its traceback could not be written ({full.strerror}); {DEBUG}=1 shows it. Please report it."
    bug = "This is a bug in multidomain, or in a method or package that it uses."
    err.print(f"error: unexpected {what}. {bug} {where}", style="red", soft_wrap=True)


def _logged(error: BaseException) -> Path:
    """Return a new file with the traceback, readable by its owner only: it may quote the data."""
    descriptor, name = tempfile.mkstemp(prefix="multidomain-", suffix=".log")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"multidomain {__version__}, Python {platform.python_version()}, {platform.platform()}\n\n")
            file.writelines(traceback.format_exception(error))
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether memory could not be had; torch reports it as a RuntimeError."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "t allocate memory" in str(error))


def out_of_memory(error: BaseException) -> MultidomainError:
    """Return the error to print."""
    what = " ".join(str(error).split())[:200]
    return MultidomainError(
        f"Not enough memory{f' ({what})' if what else ''}.",
        "Use fewer features ({max_features=NUMBER}), a smaller batch, or a machine with more memory.",
    )


def flush_output() -> None:
    """Write what standard output still holds; after `| head` quietly, and to a full disk with an error.

    Python would do so at its very end, with a traceback that nobody can catch.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError) as error:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python tries again
        full = out_of_space(error, "standard output")
        if full is not None:
            end_with(2, print_error, full)
    with suppress(OSError, ValueError):
        if sys.stderr is not None:
            sys.stderr.flush()
