"""What all parts of a report in Markdown are made of."""

from __future__ import annotations

from collections.abc import Sequence

from multidomain.errors import counted
from multidomain.report.tables.layout import Cell, Grid
from multidomain.report.tables.records import TableRecords


def grid_markdown(grid: Grid) -> str:
    """Return a table as Markdown, its footnotes below it."""
    alignment = ["---"] * grid.words + ["---:"] * (len(grid.headings) - grid.words)
    lines = [line(grid.headings), f"|{'|'.join(alignment)}|"]
    lines += [line([_cell(cell) for cell in row]) for row in grid.rows]
    if grid.notes:
        lines += ["", *(f"{number}. {note}" for number, note in enumerate(grid.notes, start=1))]
    return "\n".join(lines)


def line(cells: Sequence[str]) -> str:
    """Return a line of a table."""
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    text = cell.text.replace("|", "\\|").replace("<", "&lt;")
    text = f"**{text}**" if cell.is_bold else text
    notes = ",".join(map(str, cell.notes))
    return f"{text}<sup>{notes}</sup>" if notes else text


def dropped(records: TableRecords) -> list[str]:
    """Return list items on the records that no longer count."""
    lines = []
    if records.stale:
        lines.append(
            f"- stale: {counted(records.stale, 'record')} dropped, of rows, settings or data no longer in use."
        )
    if records.superseded:
        lines.append(f"- superseded: {counted(records.superseded, 'record')} dropped for a later one of the same run.")
    return lines
