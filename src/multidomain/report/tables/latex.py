"""Tables in LaTeX, for papers; they need the package booktabs."""

from __future__ import annotations

from multidomain.report.tables.layout import Cell, Grid, main_grid, variant_title
from multidomain.report.tables.types import TableResults, VariantResults

ESCAPES = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "±": r"$\pm$",
    "–": "--",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
}


def escaped(text: str) -> str:
    """Escape text for LaTeX.

    Examples
    --------
    >>> escaped("50 % of A_1")
    '50 \\\\% of A\\\\_1'
    """
    return "".join(ESCAPES.get(character, character) for character in text)


def latex_table(table: TableResults) -> str:
    """Return all variants of a table, each a full-width ``table*``."""
    head = "% Made by 'multidomain report'; do not edit. Needs \\usepackage{booktabs}.\n"
    return head + "\n".join(_variant(table, results) for results in table.variants)


def _variant(table: TableResults, results: VariantResults) -> str:
    title = ": ".join(filter(None, (table.title, variant_title(results.variant))))
    label = "-".join(filter(None, (table.name, results.variant.selection, results.variant.target_text)))
    caption = (
        f"{title}. Accuracy in per cent, mean over seeds ± standard error; p: our seeds against the published "
        f"{table.competitor.average:.2f} of {table.competitor.system}."
    )
    lines = [
        r"\begin{table*}[t]",
        r"\centering\footnotesize\setlength{\tabcolsep}{3pt}",
        grid_latex(main_grid(table, results)),
        rf"\caption{{{escaped(caption)}}}",
        rf"\label{{tab:{label}}}",
        r"\end{table*}",
    ]
    return "\n".join(lines) + "\n"


def grid_latex(grid: Grid) -> str:
    """Return a table and its footnotes; rows are grouped by their first cell, which is printed once."""
    lines = [rf"\begin{{tabular}}{{{'l' * grid.words}{'r' * (len(grid.headings) - grid.words)}}}", r"\toprule"]
    lines.append(_line([escaped(heading) for heading in grid.headings]))
    above = None
    for row in grid.rows:
        first = "" if row[0].text == above else _cell(row[0])
        if first:
            lines.append(r"\midrule")
        lines.append(_line([first, *map(_cell, row[1:])]))
        above = row[0].text
    lines += [r"\bottomrule", r"\end{tabular}"]
    if grid.notes:
        notes = [f"$^{{{number}}}$~{escaped(note)}" for number, note in enumerate(grid.notes, start=1)]
        lines += ["", r"\smallskip", r"\begin{minipage}{\textwidth}\footnotesize", " ".join(notes), r"\end{minipage}"]
    return "\n".join(lines)


def _line(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def _cell(cell: Cell) -> str:
    text = escaped(cell.text)
    if cell.text[:1] in "+-" and cell.text[1:2].isdigit():  # typeset as a minus, not a hyphen
        text = f"${cell.text}$"
    text = rf"\textbf{{{text}}}" if cell.is_bold else text
    return f"{text}$^{{{','.join(map(str, cell.notes))}}}$" if cell.notes else text
