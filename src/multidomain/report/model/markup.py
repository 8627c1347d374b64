"""HTML and SVG from Python calls; everything that is not `Html` is escaped, and only here."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import Any

_VOID = {"meta", "br", "hr", "col"}
# Not allowed in HTML or UTF-8, but a text may contain them.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class Html(str):
    """A string that is already markup."""


def escaped(value: Any) -> Html:
    """Return a value as markup that shows it."""
    if isinstance(value, Html):
        return value
    return Html(html.escape(_FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", str(value))))


def joined(parts: Iterable[Any], between: str = "") -> Html:
    """Concatenate parts, escaped where needed."""
    return Html(escaped(between).join(escaped(part) for part in parts))


def tag(name: str, /, *children: Any, **attributes: Any) -> Html:
    """Return an element.

    Attributes that are None or False are omitted. ``class_`` is class, other underscores become hyphens, and numbers
    are rounded to one decimal, which is enough for a drawing.
    """
    written = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        if isinstance(value, float):
            value = shortest(value)
        key = key.rstrip("_").replace("_", "-")
        written.append(f" {key}" if value is True else f' {key}="{escaped(value)}"')
    start = f"<{name}{''.join(written)}>"
    return Html(start if name in _VOID else f"{start}{joined(children)}</{name}>")


def shortest(value: float) -> str:
    """Return a number with at most one decimal."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def table(
    caption: str,
    headings: Sequence[Any],
    rows: Iterable[Sequence[Any]],
    align: str,
    foot: Sequence[Any] | None = None,
    class_: str | None = None,
) -> Html:
    """Return a table with row headers in the first column; it scrolls sideways where it does not fit.

    Parameters
    ----------
    align
        A letter for each column: ``l`` for words, ``r`` for numbers.
    foot
        The footer row.
    """
    kinds = ["number" if letter == "r" else None for letter in align]
    head = [tag("th", heading, scope="col", class_=kind) for heading, kind in zip(headings, kinds, strict=True)]
    body = [tag("tr", *_cells(row, kinds)) for row in rows]
    whole = tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", *head)),
        tag("tbody", *body),
        tag("tfoot", tag("tr", *_cells(foot, kinds))) if foot else "",
        class_=class_,
    )
    # Accessibility: a scrollable region must be focusable, and then it needs a label.
    return tag("div", whole, class_="scroll", role="region", tabindex=0, aria_label=caption)


def _cells(row: Sequence[Any], kinds: Sequence[str | None]) -> list[Html]:
    first, *others = row
    cells = [tag("td", value, class_=kind) for value, kind in zip(others, kinds[1:], strict=True)]
    return [tag("th", first, scope="row", class_=kinds[0]), *cells]


def figure(drawing: Html, caption: str, legend: Html | None = None) -> Html:
    """Return a drawing with its legend and caption."""
    return tag("figure", drawing, legend or "", tag("figcaption", caption))


def paragraphs(*texts: Any) -> Html:
    """Return each non-empty text as a paragraph."""
    return joined(tag("p", text) for text in texts if text)


def folded(summary: str, *content: Any, opened: bool = False) -> Html:
    """Return collapsible content behind a summary line."""
    return tag("details", tag("summary", summary), *content, open=opened)


def percent(share: float | None, digits: int = 1) -> str:
    """Return ``76.7 %``, or a dash for None."""
    return "–" if share is None else f"{100 * share:.{digits}f}\N{NO-BREAK SPACE}%"


def points(difference: float) -> str:
    """Return the absolute difference of two shares as ``4.2 points``."""
    size = f"{abs(100 * difference):.1f}"
    return f"{size} point{'' if size == '1.0' else 's'}"


def listed(names: Sequence[str], limit: int = 5) -> str:
    """Return ``a, b and c``; a long list is truncated to ``a, b and 7 more``."""
    if len(names) > limit:
        return f"{', '.join(names[:limit])} and {len(names) - limit} more"
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)
