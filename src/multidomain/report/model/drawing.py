"""Shared by all charts: scales, ticks, axes, symbols and legends.

A chart is as wide as a phone's screen, so that its text is readable there; a wide page shows several side by side.
Colours are CSS classes, which the style sheet defines for light and dark pages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from multidomain.report.model.markup import Html, joined, shortest, tag

WIDTH = 340
COLOURS = 8
_SHAPES = 5  # coprime to the number of colours: 40 domains before a pair of colour and shape repeats


@dataclass(frozen=True)
class Scale:
    """Map values to pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def ticks(low: float, high: float, wanted: int = 4) -> list[float]:
    """Return about `wanted` round numbers within a range."""
    rough = (high - low) / wanted
    power = 10 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def widened(values: Iterable[float]) -> tuple[float, float]:
    """Return a range that holds the values with a margin, wide enough not to exaggerate tiny differences."""
    known = list(values)
    low, high = min(known), max(known)
    least = 0.1 * max(abs(low), abs(high)) or 1.0
    room = max((high - low) * 0.08, (least - (high - low)) / 2)
    return low - room, high + room


def canvas(height: float, description: str, *content: Any) -> Html:
    """Return a drawing; the description is its text for screen readers."""
    inside = (tag("title", description), *content)
    return tag("svg", *inside, viewBox=f"0 0 {WIDTH} {shortest(height)}", role="img", class_="chart")


def text(x: float, y: float, value: Any, anchor: str = "start", class_: str | None = None) -> Html:
    """Return a text whose start, middle or end is at (x, y)."""
    return tag("text", value, x=float(x), y=float(y), text_anchor=anchor, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Html:
    """Return a straight line."""
    return tag("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=class_)


def axes(
    x: Scale,
    y: Scale,
    x_ticks: Sequence[float],
    y_ticks: Sequence[float],
    show: tuple[Callable[[float], str], Callable[[float], str]],
    names: tuple[str, str],
) -> Html:
    """Return the grid, the tick labels and the axis titles."""
    parts = []
    for value in y_ticks:
        parts.append(line(x.start, y(value), x.end, y(value), "grid"))
        parts.append(text(x.start - 6, y(value) + 4, show[1](value), "end"))
    for value in x_ticks:
        parts.append(line(x(value), y.start, x(value), y.start + 4, "axis"))
        parts.append(text(x(value), y.start + 17, show[0](value), "middle"))
    parts.append(line(x.start, y.start, x.end, y.start, "axis"))
    parts.append(text(x.end, y.start + 32, names[0], "end", "name"))
    parts.append(text(2, y.end - 10, names[1], "start", "name"))
    return joined(parts)


def colour(number: int) -> str:
    """Return the CSS class for the colour of a domain or class."""
    return f"c{number % COLOURS}"


def symbols(number: int, places: Iterable[tuple[float, float]], size: float = 2.6) -> str:
    """Return the path of one symbol at many places; its shape follows the number, for colour-blind readers."""
    # Each is drawn from its centre: circle, square, triangle, diamond, inverted triangle.
    r, far = size, size * 1.3
    shape = (
        f"m{-r:.1f} 0a{r:.1f} {r:.1f} 0 1 0 {2 * r:.1f} 0a{r:.1f} {r:.1f} 0 1 0 {-2 * r:.1f} 0z",
        f"m{-r * 0.9:.1f} {-r * 0.9:.1f}h{r * 1.8:.1f}v{r * 1.8:.1f}h{-r * 1.8:.1f}z",
        f"m{-far:.1f} {r:.1f}h{2 * far:.1f}l{-far:.1f} {-2 * r:.1f}z",
        f"m0 {-far:.1f}l{far:.1f} {far:.1f}l{-far:.1f} {far:.1f}l{-far:.1f} {-far:.1f}z",
        f"m{-far:.1f} {-r:.1f}h{2 * far:.1f}l{-far:.1f} {2 * r:.1f}z",
    )[number % _SHAPES]
    return "".join(f"M{shortest(x)} {shortest(y)}{shape}" for x, y in places)


def legend(entries: Iterable[tuple[Html, str]]) -> Html:
    """Return the legend of a chart."""
    items = [tag("li", tag("svg", symbol, viewBox="0 0 18 16", aria_hidden="true"), name) for symbol, name in entries]
    return tag("ul", *items, class_="legend")


def symbol_of(number: int) -> Html:
    """Return the symbol of a domain or class, for a legend."""
    return tag("path", d=symbols(number, [(9, 8)], 4.2), class_=f"dots {colour(number)}")


def cut(name: str, letters: int) -> str:
    """Truncate a name that would not fit in the drawing."""
    return name if len(name) <= letters else f"{name[: letters - 1].rstrip()}…"
