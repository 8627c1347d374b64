"""The charts of a report, as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from multidomain.report.model.drawing import (
    WIDTH,
    Scale,
    axes,
    canvas,
    colour,
    cut,
    line,
    symbols,
    text,
    ticks,
    widened,
)
from multidomain.report.model.markup import Html, joined, percent, tag
from multidomain.report.model.scores import Interval

_LETTERS = 34  # of a name that fits beside a number
_TURNS = 6


def whole_percent(share: float) -> str:
    """Format a share for an axis."""
    return f"{100 * share:.0f}%"


def short_number(value: float) -> str:
    """Format a number for an axis."""
    return f"{value:.3g}".replace("-", "−")


@dataclass(frozen=True)
class Measured:
    """A line of `interval_chart`."""

    name: str
    interval: Interval
    shared: float | None
    majority: float | None


def interval_chart(rows: Sequence[Measured], description: str) -> Html:
    """Draw shares with their intervals, one per line, with the baselines as extra marks."""
    height, top = 42.0, 8.0
    seen = [v for row in rows for v in (row.interval.low, row.shared, row.majority) if v is not None]
    low = max(0.0, math.floor(min(seen) * 10 - 1e-9) / 10)
    x = Scale(low, 1.0, 10, WIDTH - 10)
    end = top + height * len(rows)
    parts = []
    for value in ticks(low, 1.0, 5):
        parts += [line(x(value), top, x(value), end, "grid"), text(x(value), end + 15, whole_percent(value), "middle")]
    for number, row in enumerate(rows):
        y, interval = top + height * number + 29, row.interval
        parts.append(text(x.start, y - 12, cut(row.name, _LETTERS), class_="strong"))
        parts.append(text(x.end, y - 12, percent(interval.share), "end", "strong"))
        told = (
            f"{row.name}: {percent(interval.share)}, 95 % interval {percent(interval.low)} to {percent(interval.high)}"
        )
        marks = [tag("title", told), line(x(interval.low), y, x(interval.high), y, "interval")]
        if row.majority is not None:
            marks.append(majority_mark(x(row.majority), y))
        if row.shared is not None:
            marks.append(shared_mark(x(row.shared), y))
        marks.append(share_mark(x(interval.share), y))
        parts.append(tag("g", *marks))
    return canvas(end + 22, description, *parts)


def share_mark(x: float, y: float) -> Html:
    """Return the mark of a measured share."""
    return tag("circle", cx=float(x), cy=float(y), r=4.5, class_="share")


def shared_mark(x: float, y: float) -> Html:
    """Return the mark of predictions from the shared part alone."""
    return tag("path", d=f"M{x:.1f} {y - 7:.1f}l7 7l-7 7l-7-7z", class_="shared")


def majority_mark(x: float, y: float) -> Html:
    """Return the mark of the majority-class baseline."""
    return line(x, y - 8, x, y + 8, "majority")


@dataclass(frozen=True)
class Series:
    """A line of `line_chart`; its CSS class sets colour and width."""

    name: str
    values: Sequence[float | None]
    class_: str


def line_chart(
    series: Sequence[Series],
    description: str,
    *,
    name: str,
    show: Callable[[float], str] = short_number,
    whole: tuple[float, float] | None = None,
    level: tuple[float, str] | None = None,
    kept: int | None = None,
) -> Html:
    """Draw values by epoch.

    Parameters
    ----------
    whole
        Range of the y axis; by default it fits the values.
    level
        A reference value, drawn as a dashed line, and its name.
    kept
        The epoch whose checkpoint was kept, as a dotted line. Epochs count from 1.
    """
    n = max(len(one.values) for one in series)
    known = [value for one in series for value in one.values if value is not None and math.isfinite(value)]
    low, high = whole or widened(known)
    x, y = Scale(0.5 if n == 1 else 1, n + 0.5 if n == 1 else n, 46, WIDTH - 12), Scale(low, high, 150, 28)
    x_ticks = sorted({max(1, round(value)) for value in ticks(1, n + (n == 1), 6) if round(value) <= n})
    name = f"{name} (dashed: {level[1]})" if level else name
    parts = [axes(x, y, x_ticks, ticks(low, high), (lambda value: f"{value:.0f}", show), ("epoch", name))]
    if level:
        parts.append(line(x.start, y(level[0]), x.end, y(level[0]), "level"))
    if kept:
        parts.append(line(x(kept), y.start, x(kept), y.end, "kept"))
    for one in series:
        places = [(e, v) for e, v in enumerate(one.values, start=1) if v is not None and math.isfinite(v)]
        path = "".join(f"{'L' if i else 'M'}{x(e):.1f} {y(v):.1f}" for i, (e, v) in enumerate(places))
        dots = [
            tag("circle", tag("title", f"{one.name}, epoch {e}: {show(v)}"), cx=x(e), cy=y(v), r=2.0)
            for e, v in places
            if n <= 60
        ]
        parts.append(tag("g", tag("path", d=path), *dots, class_=f"series {one.class_}"))
    if kept:  # text is drawn last, so that no line runs through it
        anchor, shift = ("end", -6) if x(kept) > WIDTH / 2 else ("start", 6)
        parts.append(text(x(kept) + shift, y.end + 3, f"kept: epoch {kept}", anchor, "halo"))
    return canvas(186, description, *parts)


@dataclass(frozen=True)
class Bar:
    """A line of `bar_chart`."""

    name: str
    value: float
    shown: str
    class_: str


def bar_chart(
    bars: Sequence[Bar], description: str, *, most: float, ends: tuple[str, str], level: tuple[float, str] | None = None
) -> Html:
    """Draw values between 0 and the maximum, with an optional reference value."""
    height, top = 44.0, 18.0 if level else 6.0
    x, end = Scale(0, most, 10, WIDTH - 10), top + height * len(bars)
    parts = []
    for number, bar in enumerate(bars):
        y = top + height * number + 22
        parts.append(text(x.start, y - 6, bar.name, class_="strong"))
        parts.append(text(x.end, y - 6, bar.shown, "end", "strong"))
        parts.append(tag("rect", x=x.start, y=y, width=x.end - x.start, height=12, rx=2, class_="track"))
        filled = tag("title", f"{bar.name}: {bar.shown}")
        parts.append(
            tag(
                "rect",
                filled,
                x=x.start,
                y=y,
                width=max(1.5, x(bar.value) - x.start),
                height=12,
                rx=2,
                class_=bar.class_,
            )
        )
        if level:
            parts.append(line(x(level[0]), y - 4, x(level[0]), y + 16, "majority"))
    if level:
        anchor = "start" if x(level[0]) < WIDTH / 2 else "end"
        parts += [text(x(level[0]), 12, level[1], anchor)]
    parts += [text(x.start, end + 10, ends[0]), text(x.end, end + 10, ends[1], "end")]
    return canvas(end + 18, description, *parts)


def scatter(places: np.ndarray, groups: Sequence[tuple[int | None, str, np.ndarray]], description: str) -> Html:
    """Draw a scatter plot.

    Parameters
    ----------
    places
        Shape (points, 2).
    groups
        Number of the symbol (None: grey), name, and mask of the group's points.
    """
    height = 280.0
    x = Scale(*widened(places[:, 0]), 6, WIDTH - 6)
    y = Scale(*widened(places[:, 1]), height - 6, 6)
    parts: list[Any] = [tag("rect", x=1, y=1, width=WIDTH - 2, height=height - 2, class_="box")]
    # Interleave the groups, or the last one would hide the others.
    for turn in range(_TURNS):
        for number, name, rows in groups:
            here = places[np.flatnonzero(rows)[turn::_TURNS]]
            path = symbols(number or 0, [(x(a), y(b)) for a, b in here])
            class_ = f"dots {'unknown' if number is None else colour(number)}"
            told = tag("title", f"{name}: {int(rows.sum())}")
            parts.append(tag("path", told, d=path, class_=class_) if path else "")
    return canvas(height, description, *parts)


@dataclass(frozen=True)
class BinDot:
    """Rows in one confidence bin."""

    low: float
    high: float
    confidence: float
    accuracy: Interval
    rows: int


def reliability_chart(bins: Sequence[BinDot], start: float, description: str) -> Html:
    """Draw accuracy by confidence; perfect calibration is the diagonal."""
    x, y = Scale(start, 1.0, 46, WIDTH - 12), Scale(0.0, 1.0, 238, 28)
    show = (whole_percent, whole_percent)
    parts = [axes(x, y, _bin_ticks(start), ticks(0, 1, 5), show, ("confidence", "accuracy"))]
    parts.append(line(x(start), y(start), x(1), y(1), "level"))
    for one in bins:
        at, accuracy = x(one.confidence), one.accuracy
        told = f"{one.rows} predictions: mean confidence {percent(one.confidence)}, accuracy {percent(accuracy.share)}"
        dot = tag("circle", cx=at, cy=y(accuracy.share), r=4.5, class_="share")
        parts.append(
            tag("g", tag("title", told), line(at, y(accuracy.low), at, y(accuracy.high), "interval thin"), dot)
        )
    return canvas(274, description, *parts)


def histogram(bins: Sequence[BinDot], start: float, description: str) -> Html:
    """Draw the number of predictions by confidence."""
    most = max(one.rows for one in bins)
    x, y = Scale(start, 1.0, 46, WIDTH - 12), Scale(0.0, most * 1.05, 238, 28)
    y_ticks = [value for value in ticks(0, most * 1.05) if value == int(value)]
    parts = [axes(x, y, _bin_ticks(start), y_ticks, (whole_percent, "{:,.0f}".format), ("confidence", "predictions"))]
    for one in bins:
        told = f"confidence {percent(one.low, 0)} to {percent(one.high, 0)}: {one.rows} predictions"
        left, right, top = x(one.low) + 1, x(one.high) - 1, y(one.rows)
        parts.append(
            tag("rect", tag("title", told), x=left, y=top, width=right - left, height=y.start - top, class_="bar")
        )
    return canvas(274, description, *parts)


def coverage_chart(points: Sequence[tuple[float, float]], description: str) -> Html:
    """Draw accuracy by coverage, both shares, by ascending coverage."""
    low = min(accuracy for _, accuracy in points)
    x, y = Scale(0.0, 1.0, 46, WIDTH - 12), Scale(max(0.0, math.floor(low * 10 - 1e-9) / 10), 1.0, 150, 28)
    show = (whole_percent, whole_percent)
    parts = [axes(x, y, ticks(0, 1, 5), ticks(y.low, y.high), show, ("coverage", "accuracy"))]
    path = "".join(f"{'L' if i else 'M'}{x(a):.1f} {y(b):.1f}" for i, (a, b) in enumerate(points))
    dots = [
        tag("circle", tag("title", f"coverage {percent(a)}: accuracy {percent(b)}"), cx=x(a), cy=y(b), r=2.0)
        for a, b in points[::-10]
    ]
    parts.append(tag("g", tag("path", d=path), *dots, class_="series c0"))
    return canvas(186, description, *parts)


def _bin_ticks(start: float) -> list[float]:
    return [tenth / 10 for tenth in range(round(start * 10), 11)]


def share_bar(share: float) -> Html:
    """Return a small bar for a table cell."""
    inside = tag("rect", width=100.0, height=8, class_="track") + tag("rect", width=100 * share, height=8, class_="bar")
    return tag("svg", Html(inside), viewBox="0 0 100 8", class_="inline", aria_hidden="true")


def mark_symbols() -> dict[str, Html]:
    """Return the marks of `interval_chart`, for its legend."""
    return {
        "accuracy": joined([line(0, 8, 18, 8, "interval"), share_mark(9, 8)]),
        "shared": shared_mark(9, 8),
        "majority": majority_mark(9, 8),
    }
