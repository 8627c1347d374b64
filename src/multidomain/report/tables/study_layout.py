"""Layout of the tables of studies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from multidomain.report.tables.layout import NONE, Cell, Grid, figures
from multidomain.report.tables.studies import StudyVariant, by_labels, gap_closed
from multidomain.report.tables.study_cells import (
    CellDifference,
    CellName,
    Comparison,
    StudySystem,
    prior_estimates,
    shown_prevalence,
)

MARGIN = 0.5
"""Points by which a system may be below plain LR in a cell before it counts as below."""

CALIBRATION_MARGIN = 2.0
"""Points by which its calibration error may be above that of plain LR."""

BORROWED = "Reads no unlabelled text, so the same runs appear under both kinds of text."


def scores_grid(variant: StudyVariant) -> Grid:
    """Lay out the mean scores of all systems, and their estimates of the class prior."""
    systems = variant.systems
    priors = [prior_estimates(system.records) for system in systems]
    columns = {
        **_names(systems),
        "accuracy": _column(systems, lambda system: system.mean("test")),
        "macro-F1": _column(systems, lambda system: system.mean("macro_f1")),
        "calibration error": _column(systems, lambda system: system.mean("calibration_error"), lower_is_better=True),
        **{
            shown_prevalence(prevalence): _column(systems, lambda system, p=prevalence: system.mean_at("test", p))
            for prevalence in drawn_prevalences(systems)
        },
        "prior error": [Cell(NONE if prior is None else f"{prior.error:.2f}") for prior in priors],
        "in 95 % interval": [Cell(NONE if prior is None else f"{prior.covered:.0f} %") for prior in priors],
    }
    return _grid(columns, systems)


def comparison_grid(comparisons: Sequence[Comparison], margin: float) -> Grid:
    """Lay out systems minus another one; cells count where the whole interval is more than `margin` below it."""
    columns = {
        "category": [Cell(found.first.category) for found in comparisons],
        "system": [Cell(found.first.system) for found in comparisons],
        "cells": [Cell(str(len(found.cells))) for found in comparisons],
        "accuracy": [Cell(f"{found.mean('accuracy'):+.2f}") for found in comparisons],
        "worst cell": [Cell(_worst(found.worst("accuracy"), "accuracy")) for found in comparisons],
        "macro-F1": [Cell(f"{found.mean('macro_f1'):+.2f}") for found in comparisons],
        "worst cell, macro-F1": [Cell(_worst(found.worst("macro_f1"), "macro_f1")) for found in comparisons],
        "below, accuracy": [Cell(str(len(found.below("accuracy", margin)))) for found in comparisons],
        "below, macro-F1": [Cell(str(len(found.below("macro_f1", margin)))) for found in comparisons],
        "less calibrated": [Cell(str(len(found.less_calibrated(CALIBRATION_MARGIN)))) for found in comparisons],
    }
    return Grid(tuple(columns), 2, _rows(columns))


def cells_grid(system: StudySystem, against: Comparison | None) -> Grid:
    """Lay out a system's accuracy, targets by prevalences, and in brackets its difference to plain LR."""
    accuracies = system.cells("test")
    differences = {found.cell: found.accuracy.value for found in against.cells} if against else {}
    targets = list(dict.fromkeys(cell.target for cell in accuracies))

    def text(cell: CellName) -> str:
        if cell not in accuracies:
            return NONE
        return f"{accuracies[cell]:.2f}" + (f" ({differences[cell]:+.2f})" if cell in differences else "")

    columns = {"target": [Cell(target) for target in targets]}
    for prevalence in dict.fromkeys(cell.prevalence for cell in accuracies):
        columns[shown_prevalence(prevalence)] = [Cell(text(CellName(target, prevalence))) for target in targets]
    return Grid(tuple(columns), 1, _rows(columns))


def labels_grid(variant: StudyVariant, name: str) -> Grid:
    """Lay out the mean accuracy by number of labels; `name` is that of the number in the records."""
    systems = variant.systems
    found = [by_labels(system, name) for system in systems]
    columns = _names(systems)
    for number in dict.fromkeys(number for of_system in found for number in of_system):
        columns[str(number)] = _column(systems, lambda system, n=number: by_labels(system, name).get(n))
    return _grid(columns, systems)


def gap_grid(variant: StudyVariant) -> Grid | None:
    """Lay out the share of the gap between no label and all that so many labels close; None if none is known."""
    shares = [(system.row, gap_closed(system)) for system in variant.systems]
    known = [(row, of_row) for row, of_row in shares if of_row]
    if not known:
        return None
    columns = {
        "category": [Cell(row.category) for row, _ in known],
        "system": [Cell(row.system) for row, _ in known],
    }
    for number in known[0][1]:
        of_number = [of_row[number] for _, of_row in known]
        columns[str(number)] = [
            Cell(f"{100 * of.value:.0f} % ({100 * of.low:.0f} to {100 * of.high:.0f})") for of in of_number
        ]
    return Grid(tuple(columns), 2, _rows(columns))


def drawn_prevalences(systems: Sequence[StudySystem]) -> list[int]:
    """Return the prevalences that some runs were resampled to, in ascending order."""
    return sorted({record["prevalence"] for system in systems for record in system.records} - {None})


def _names(systems: Sequence[StudySystem]) -> dict[str, list[Cell]]:
    return {
        "category": [Cell(system.row.category) for system in systems],
        "system": [Cell(system.row.system, notes=(1,) if system.is_borrowed else ()) for system in systems],
        "draws": [Cell(_draws(system)) for system in systems],
    }


def _draws(system: StudySystem) -> str:
    return (
        f"{system.draws}" if system.is_complete else f"{system.draws} ({len(system.records)} of {system.wanted} runs)"
    )


def _column(
    systems: Sequence[StudySystem], value: Callable[..., float | None], *, lower_is_better: bool = False
) -> list[Cell]:
    """Lay out a figure; the best of the complete systems is bold, since others may lack the harder cells."""
    values = [value(system) for system in systems]
    complete = [system.is_complete for system in systems]
    ranked = figures(
        [v if is_ else None for v, is_ in zip(values, complete, strict=True)], lower_is_better=lower_is_better
    )
    return [
        cell if is_ or v is None else Cell(f"{v:.2f}") for cell, v, is_ in zip(ranked, values, complete, strict=True)
    ]


def _worst(cell: CellDifference, part: str) -> str:
    return f"{getattr(cell, part).value:+.2f} ({cell.cell})"


def _grid(columns: Mapping[str, list[Cell]], systems: Sequence[StudySystem]) -> Grid:
    notes = (BORROWED,) if any(system.is_borrowed for system in systems) else ()
    return Grid(tuple(columns), 2, _rows(columns), notes)


def _rows(columns: Mapping[str, list[Any]]) -> tuple[tuple[Cell, ...], ...]:
    return tuple(zip(*columns.values(), strict=True))
