"""Printing to the terminal, and the wording of hints."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from multidomain.errors import MultidomainError, Note

# What a terminal would run (ESC and other controls), and what reorders lines: names of domains, classes and files may
# come from anyone. Halves of surrogate pairs are bytes of a file name that are not UTF-8.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str, encoding: str = "utf-8") -> str:
    r"""Return a text with control characters, and those that the encoding lacks, as escapes.

    Examples
    --------
    >>> print(visible("\x1b[31mred"), visible("na\xefve", "ascii"))
    \x1b[31mred na\xefve
    """
    if text.isascii() and text.isprintable():
        return text
    text = _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
    return text.encode(encoding, "backslashreplace").decode(encoding)


class _SafeConsole(Console):
    """A console on which no data can act as a command to the terminal, and every text can be printed."""

    def render_str(self, text: str, **options: Any) -> Text:
        # Here escapes count for the width of a column.
        return super().render_str(visible(text, self.encoding), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            is_own = segment.control or segment.text == "\r"  # to write over a line; texts have none
            yield segment if is_own else Segment(visible(segment.text, self.encoding), segment.style)


out = _SafeConsole(highlight=False, markup=False, emoji=False)  # names of domains may hold brackets and colons
err = _SafeConsole(stderr=True, highlight=False, markup=False, emoji=False)


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
