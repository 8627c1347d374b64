"""Printing to the terminal, and the wording of hints."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console

from multidomain.errors import MultidomainError, Note

out = Console(highlight=False, markup=False, emoji=False)  # names of domains and columns may hold brackets and colons
err = Console(stderr=True, highlight=False, markup=False, emoji=False)


def as_option(name: str, value: str | None) -> str:
    """Write a setting as an option.

    Examples
    --------
    >>> as_option("label_column", "NAME"), as_option("overwrite", None), as_option("settings.lam", "0")
    ('--label-column NAME', '--overwrite', '--set lam=0')
    """
    if name.startswith("settings."):
        return f"--set {name.removeprefix('settings.')}={value}".removesuffix("=...")
    return f"--{name.replace('_', '-')} {value or ''}".removesuffix("...").strip()


def print_notes(notes: Iterable[Note]) -> None:
    """Print notes as warnings."""
    for note in notes:
        err.print(f"warning: {note.worded(as_option)}", style="yellow", soft_wrap=True)


def print_error(error: MultidomainError | OSError) -> None:
    """Print an error with its hint."""
    message = error.worded(as_option) if isinstance(error, MultidomainError) else str(error)
    err.print(f"error: {message}", style="red", soft_wrap=True)
