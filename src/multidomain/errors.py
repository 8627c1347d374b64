"""The errors a user can cause, and how their messages are built.

Every message says what was expected, what came and what to do. The command line prints it and exits
with code 2; a traceback is left for our own faults.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class MultidomainError(Exception):
    """Base of everything that is the input's fault and not ours."""


class DataError(MultidomainError, ValueError):
    """A corpus, a file or a row cannot be used."""


class ConfigError(MultidomainError, ValueError):
    """A setting is unknown, out of range, or contradicts another one."""


class FetchError(MultidomainError):
    """A corpus could not be downloaded."""


class ModelError(MultidomainError):
    """A saved model or checkpoint cannot be written, or is damaged, altered or too new."""


class MultidomainWarning(UserWarning):
    """Something the user should know, though the work goes on."""


class NothingToAdapt(MultidomainWarning):
    """All training text is of one domain."""


class NoDevelopmentRows(MultidomainWarning):
    """Nothing says which epoch is the best, so the last is kept."""


class NoDomainGiven(MultidomainWarning):
    """Documents come without a domain, so that private features cannot help."""


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """Return `` Did you mean 'x'?`` when a valid name is near, and the list of valid names.

    Examples
    --------
    >>> did_you_mean("kichen", ["books", "kitchen"])
    " Did you mean 'kitchen'? Valid: 'books', 'kitchen'."
    """
    names = [str(v) for v in valid]
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    question = f" Did you mean '{near[0]}'?" if near else ""
    return f"{question} Valid: {quoted(names)}."


def quoted(names: Iterable[str], limit: int = 12) -> str:
    """Join names as ``'a', 'b', 'c'``, cut after `limit` of them."""
    names = [str(n) for n in names]
    shown = ", ".join(f"'{n}'" for n in names[:limit])
    return shown + (f" and {len(names) - limit} more" if len(names) > limit else "")


def counted(number: int, noun: str) -> str:
    """Return ``1 row``, ``2,000 rows``."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"
