"""All figures of a study as CSV."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from multidomain.report.tables.studies import StudyResults, StudyVariant
from multidomain.report.tables.study_cells import CellDifference, StudySystem, prior_estimates, score

CELL = ("target", "prevalence", "target_labels", "labels")  # what makes a cell, as far as a study has it


def study_lines(study: StudyResults) -> list[dict[str, Any]]:
    """Return a line per kind of text, system and cell: scores in per cent, differences to plain LR in points."""
    return [line for variant in study.variants for system in variant.systems for line in _system_lines(variant, system)]


def _system_lines(variant: StudyVariant, system: StudySystem) -> Iterator[dict[str, Any]]:
    against = variant.against(system)
    differences = {tuple(found.cell): found for found in against.cells} if against else {}
    names = [name for name in CELL if name in system.records[0]]
    for values, records in system.grouped(*names).items():
        cell = dict(zip(names, values, strict=True))
        if "target_labels" in cell:
            cell["target_labels"] = str(cell["target_labels"])  # a number, or "all"
        prior = prior_estimates(records) if "target" in cell else None
        yield {
            **({} if variant.target_text is None else {"target_text": variant.target_text}),
            "category": system.row.category,
            "system": system.row.system,
            "method": system.row.method,
            **cell,
            "runs": len(records),
            "accuracy": score(records, "test"),
            "macro_f1": score(records, "macro_f1"),
            "calibration_error": score(records, "calibration_error"),
            "prior_error": prior.error if prior else None,
            "prior_in_interval": prior.covered if prior else None,
            **_difference(differences.get((cell.get("target"), cell.get("prevalence")))),
        }


def _difference(found: CellDifference | None) -> dict[str, float | None]:
    figures: dict[str, float | None] = {}
    for part in ("accuracy", "macro_f1"):
        interval = getattr(found, part) if found else None
        for name in ("value", "low", "high"):
            suffix = "" if name == "value" else f"_{name}"
            figures[f"{part}_difference{suffix}"] = getattr(interval, name) if interval else None
    figures["calibration_error_difference"] = found.calibration_error if found else None
    return figures
