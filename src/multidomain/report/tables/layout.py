"""Table layout, shared by Markdown and LaTeX: the cells, what is bold, and what has a footnote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from multidomain.report.tables.records import Variant
from multidomain.report.tables.types import Pair, Published, SystemResult, TableResults, VariantResults

SIGNIFICANT = 0.05
NONE = "–"
ABOVE, BELOW = "↑", "↓"


@dataclass(frozen=True)
class Cell:
    """One cell of a table."""

    text: str
    is_bold: bool = False
    notes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Grid:
    """A table: headings, the number of leading text columns, cells, and footnotes numbered from 1."""

    headings: tuple[str, ...]
    words: int
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()


def main_grid(table: TableResults, results: VariantResults) -> Grid:
    """Lay out a table as in the paper, with the published figures beside ours."""
    systems = results.systems
    domains = [figures([system.domains[name] for system in systems]) for name in table.domains]
    averages = figures([system.average for system in systems])
    averages = [
        Cell(cell.text if system.se is None else f"{cell.text} ± {system.se:.2f}", cell.is_bold)
        for cell, system in zip(averages, systems, strict=True)
    ]
    published = figures([system.published.average if system.published else None for system in systems])
    notes, marks = _footnotes(systems)
    columns = {
        "category": [Cell(system.row.category) for system in systems],
        "system": [Cell(system.row.system, notes=of_row) for system, of_row in zip(systems, marks, strict=True)],
        **dict(zip(table.domains, domains, strict=True)),
        "average ± SE": averages,
        "published": published,
        "difference": [Cell(NONE if s.difference is None else f"{s.difference:+.2f}") for s in systems],
    }
    if results.variant.compares:
        columns["within 2 SE"] = [_within(system) for system in systems]
    columns["p"] = [_p_competitor(system, table.competitor) for system in systems]
    columns["seeds"] = [_seeds(system) for system in systems]
    columns["clean"] = figures([system.clean for system in systems])
    columns["CPU s"] = [Cell(_seconds(system.cpu_seconds)) for system in systems]
    return Grid(tuple(columns), 2, tuple(zip(*columns.values(), strict=True)), tuple(notes))


def pairs_grid(pairs: Sequence[Pair]) -> Grid:
    """Lay out paired tests."""
    rows = tuple(
        (
            Cell(pair.first.name),
            Cell(pair.second.name),
            Cell(f"{100 * pair.test.difference:+.2f}"),
            Cell(p_value(pair.test.p)),
            Cell(p_value(pair.p_holm), is_bold=pair.p_holm < SIGNIFICANT),
        )
        for pair in pairs
    )
    return Grid(("system", "against", "difference", "p", "p (Holm)"), 2, rows)


def new_split_grid(results: VariantResults, given: VariantResults | None) -> Grid:
    """Lay out the systems on a new split, best first, beside their accuracy on the given split."""
    systems = sorted(results.systems, key=lambda system: -system.average)
    of_given = {system.row.name: system for system in given.systems} if given else {}
    pairs = [(system, of_given.get(system.row.name)) for system in systems]
    averages = [there.average if there else None for _, there in pairs]
    columns = {
        "category": [Cell(system.row.category) for system in systems],
        "system": [Cell(system.row.system) for system in systems],
        "seeds": [_seeds(system) for system in systems],
        "average": figures([system.average for system in systems]),
        "given split": figures(averages),
        "rank": _ranks([system.average for system in systems]),
        "rank, given split": _ranks(averages),
        "clean": figures([system.clean for system in systems]),
        "clean, given split": figures([there.clean if there else None for _, there in pairs]),
    }
    return Grid(tuple(columns), 2, tuple(zip(*columns.values(), strict=True)))


def _ranks(values: Sequence[float | None]) -> list[Cell]:
    """Rank the values, 1 for the largest; values that are equal as printed share a rank."""
    shown = [None if value is None else round(value, 2) for value in values]
    return [
        Cell(NONE if value is None else str(1 + sum(other is not None and other > value for other in shown)))
        for value in shown
    ]


def variant_title(variant: Variant) -> str:
    """Name a variant; that of Table 1 needs no name."""
    return "" if variant == Variant() else f"{variant.selection} selection, unlabelled {variant.target_text} text"


def p_value(p: float) -> str:
    """Return a p-value with three decimals, or a bound where they would all be zero."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def figures(values: Sequence[float | None], *, lower_is_better: bool = False) -> list[Cell]:
    """Lay out a column of figures; the best values, as printed, are bold."""
    texts = [None if value is None else f"{value:.2f}" for value in values]
    pick = min if lower_is_better else max
    best = pick((float(text) for text in texts if text), default=None)
    return [Cell(NONE) if text is None else Cell(text, float(text) == best) for text in texts]


def _within(system: SystemResult) -> Cell:
    if not system.is_authors or system.is_within_two_se is None:
        return Cell(NONE)
    return Cell("yes" if system.is_within_two_se else "no")


def _p_competitor(system: SystemResult, competitor: Published) -> Cell:
    if system.p_competitor is None:
        return Cell(NONE)
    direction = ABOVE if system.average > competitor.average else BELOW
    mark = f" {direction}" if system.p_competitor < SIGNIFICANT else ""
    return Cell(p_value(system.p_competitor) + mark)


def _seeds(system: SystemResult) -> Cell:
    if not system.row.is_random:
        return Cell(NONE)
    done, planned = len(system.seeds), system.row.seeds
    return Cell(f"{done} of {planned}" if done < planned else str(done))


def _seconds(seconds: float) -> str:
    return f"{seconds:,.0f}" if seconds >= 10 else f"{seconds:.1f}"


def _footnotes(systems: Sequence[SystemResult]) -> tuple[list[str], list[tuple[int, ...]]]:
    """Number the footnotes of rows; equal footnotes share a number."""
    notes: list[str] = []
    marks = []
    for system in systems:
        said = [note for note in (system.row.note.strip(), _on_borrowed(system), _on_printed_average(system)) if note]
        notes += [note for note in said if note not in notes]
        marks.append(tuple(notes.index(note) + 1 for note in said))
    return notes, marks


def _on_borrowed(system: SystemResult) -> str:
    if not system.is_borrowed:
        return ""
    return (
        "Reads no unlabelled text, so the same runs appear under train text too; its clean rows are those of train "
        "text."
    )


def _on_printed_average(system: SystemResult) -> str:
    """Note where the paper's average is not the mean of its own row; rounding may explain 0.01."""
    known = system.published
    if known is None or abs(known.average - known.mean) < 0.015:
        return ""
    return f"The published average is as printed; the mean of the printed row is {known.mean:.2f}."
