"""User-facing errors, each with a hint, and notes.

A message says what was expected and what was found. The hint says what to do and names settings in a neutral form;
the command line, Python and HTTP each render it their own way. The command line exits with code 2; tracebacks are
for our own bugs.
"""

from __future__ import annotations

import ast
import difflib
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

WordSetting: TypeAlias = Callable[[str, str | None], str]
"""How a setting is written: its name, and its value or None for a flag that is switched on."""

_SETTING = re.compile(r"\{([\w.]+)(?:=([^{}]*))?\}")


class MultidomainError(Exception):
    """Base of all errors caused by the input, not by a bug of ours.

    Parameters
    ----------
    message
        What was expected and what was found.
    hint
        What to do. A setting is written ``{label_column=NAME}``, or ``{overwrite}`` for a flag; a method's setting
        ``{settings.lam=0}``. A value in capitals is for the user to fill in.

    Examples
    --------
    >>> error = DataError("reviews.csv has no text column.", "Name it with {text_column=NAME}.")
    >>> str(error)
    'reviews.csv has no text column. Name it with text_column=....'
    >>> error.worded(lambda name, value: f"--{name.replace('_', '-')} {value}")
    'reviews.csv has no text column. Name it with --text-column NAME.'
    """

    def __init__(self, message: str, hint: str = ""):
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.worded(as_argument)

    def worded(self, word: WordSetting) -> str:
        """Return message and hint, with settings as `word` writes them."""
        return f"{self.message} {worded(self.hint, word)}".strip()


class DataError(MultidomainError, ValueError):
    """A corpus, a file or a row cannot be used."""


class ConfigError(MultidomainError, ValueError):
    """A setting is unknown, out of range, or contradicts another one."""


class MachineError(ConfigError):
    """This machine lacks what settings ask for, a device or memory; another one may have it."""


class FetchError(MultidomainError):
    """A corpus could not be downloaded."""


class ModelError(MultidomainError):
    """A saved model, run or checkpoint is missing, damaged, altered, too new, or from another run."""


class StorageError(MultidomainError):
    """A file could not be written."""


class TrainingError(MultidomainError):
    """Training went wrong: a solver or a network diverged."""


class WorkerError(MultidomainError):
    """A worker process was killed."""


class WorkerLacksError(MultidomainError):
    """A worker lacks something that all tasks need: a package or the model."""


class MultidomainWarning(UserWarning):
    """Something the user should know that is not an error."""


@dataclass(frozen=True)
class Note:
    """Something the user should know that is not an error. Returned as a value.

    Attributes
    ----------
    message, hint
        As for an error.
    kind
        Machine-readable code.
    """

    message: str
    hint: str = ""
    kind: str = "note"

    def __str__(self) -> str:
        return self.worded(as_argument)

    def worded(self, word: WordSetting) -> str:
        """Return message and hint, with settings as `word` writes them."""
        return f"{self.message} {worded(self.hint, word)}".strip()


def warn(notes: Iterable[Note], *, stacklevel: int = 3) -> None:
    """Issue notes as Python warnings, attributed to the user's code."""
    for note in notes:
        warnings.warn(str(note), MultidomainWarning, stacklevel=stacklevel)


def worded(hint: str, word: WordSetting) -> str:
    """Return a hint with its settings as `word` writes them."""
    return _SETTING.sub(lambda found: word(found[1], found[2]), hint)


def settings_in(hint: str) -> dict[str, str | None]:
    """Return the settings named in a hint, with their values."""
    return {found[1]: found[2] for found in _SETTING.finditer(hint)}


def as_argument(name: str, value: str | None) -> str:
    """Write a setting as a Python argument.

    Examples
    --------
    >>> as_argument("drop_empty", None), as_argument("vectors", "random"), as_argument("vectors", "FILE")
    ('drop_empty=True', "vectors='random'", 'vectors=...')
    """
    return f"{name.removeprefix('settings.')}={_argument(value)}"


def _argument(value: str | None) -> str:
    if value is None:
        return "True"
    if value.isupper() or value == "...":
        return "..."
    literal: Any
    try:
        literal = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        literal = value
    return repr(literal)


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """Return `` Did you mean 'x'?`` if a valid name is close, and the list of valid names.

    Examples
    --------
    >>> did_you_mean("kichen", ["books", "kitchen"])
    " Did you mean 'kitchen'? Valid: 'books', 'kitchen'."
    """
    names = [str(v) for v in valid]
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    question = f" Did you mean '{near[0]}'?" if near else ""
    return f"{question} Valid: {quoted(names)}."


EXTRA_OF = {
    "torch": "networks",
    "onnx": "onnx",
    "ray": "ray",
    "dask": "dask",
    "distributed": "dask",
    "pyspark": "spark",
    "optuna": "tune",
    "tokenizers": "encoders",
    "huggingface_hub": "encoders",
}
"""Packages that are not always installed, and the extras that bring them."""


def missing_package(what: str, package: str) -> ConfigError:
    """Return the error of something that needs a package which is not installed.

    Examples
    --------
    >>> print(missing_package("The method 'man-nll'", "torch"))
    The method 'man-nll' needs torch, which is not installed. Run: pip install 'multidomain[networks]'
    """
    return ConfigError(
        f"{what} needs {package}, which is not installed.", f"Run: pip install 'multidomain[{EXTRA_OF[package]}]'"
    )


def quoted(names: Iterable[str], limit: int = 12) -> str:
    """Join names as ``'a', 'b', 'c'``, truncated after `limit` names."""
    names = [str(n) for n in names]
    shown = ", ".join(f"'{n}'" for n in names[:limit])
    return shown + (f" and {len(names) - limit:,} more" if len(names) > limit else "")


def counted(number: int, noun: str) -> str:
    """Return ``1 row``, ``2,000 rows``."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"
