"""A study cell by cell: a target and the prevalence of its positive class; two systems on the same test rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from multidomain.errors import DataError
from multidomain.experiments.recipes import Row
from multidomain.experiments.records import Record, unpack
from multidomain.experiments.shifted_priors import Prevalence
from multidomain.experiments.significance import Interval, paired_macro_f1, paired_test
from multidomain.metrics import domain_mean

Part: TypeAlias = Literal["test", "macro_f1", "calibration_error"]


class CellName(NamedTuple):
    """A target, and the per cent of its rows that are of the last class; None if it has its own class prior."""

    target: str
    prevalence: Prevalence

    def __str__(self) -> str:
        return self.target if self.prevalence is None else f"{self.target} {shown_prevalence(self.prevalence)}"


def shown_prevalence(prevalence: Prevalence) -> str:
    """Return the heading of a prevalence."""
    return "own prior" if prevalence is None else f"{prevalence} %"


@dataclass(frozen=True)
class StudySystem:
    """The runs of a row with one kind of target text.

    Attributes
    ----------
    wanted
        Number of runs that the recipe has.
    is_borrowed
        Whether the runs are those with the other target text, which the system does not read.
    """

    row: Row
    records: tuple[Record, ...] = field(repr=False)
    wanted: int
    is_borrowed: bool = False

    @property
    def is_complete(self) -> bool:
        """Tell whether every run has a record."""
        return len(self.records) >= self.wanted

    @property
    def draws(self) -> int:
        """Return the number of draws."""
        return len({record["draw"] for record in self.records})

    def grouped(self, *names: str) -> dict[tuple[Any, ...], list[Record]]:
        """Return the records by some values of their splits."""
        groups: dict[tuple[Any, ...], list[Record]] = {}
        for record in self.records:
            groups.setdefault(tuple(record[name] for name in names), []).append(record)
        return groups

    def cells(self, part: Part) -> dict[CellName, float]:
        """Return a score of each cell, in per cent: the mean over draws and seeds."""
        groups = self.grouped("target", "prevalence")
        return {CellName(*names): score(records, part) for names, records in groups.items()}

    def mean(self, part: Part) -> float | None:
        """Return the mean over cells; None without any."""
        values = list(self.cells(part).values())
        return float(np.mean(values)) if values else None

    def mean_at(self, part: Part, prevalence: Prevalence) -> float | None:
        """Return the mean over the cells of one prevalence; None without any."""
        values = [value for cell, value in self.cells(part).items() if cell.prevalence == prevalence]
        return float(np.mean(values)) if values else None

    def only(self, **values: Any) -> StudySystem:
        """Return the same system with the runs that have some values."""
        records = [r for r in self.records if all(r[name] == value for name, value in values.items())]
        return replace(self, records=tuple(records))


def score(records: Sequence[Record], part: Part) -> float:
    """Return the mean of a score over domains and records, in per cent."""
    return 100 * float(np.mean([domain_mean(record[part].values()) for record in records]))


@dataclass(frozen=True)
class PriorEstimates:
    """How good estimated class priors are.

    Attributes
    ----------
    error
        Mean absolute error of the share of a class, in points.
    covered
        Per cent of the 95 % intervals that hold the true share.
    """

    error: float
    covered: float


def prior_estimates(records: Sequence[Record]) -> PriorEstimates | None:
    """Compare the estimated priors of targets with the class shares of their test rows; None if none was estimated."""
    errors, covered = [], []
    for record in records:
        found = record["class_priors"].get(record["target"])
        if found is None or found["source"] != "estimate":
            continue
        truth = unpack(record["truth"][record["target"]])
        for code, name in enumerate(record["classes"]):
            true = float((truth == code).mean())
            errors.append(100 * abs(found["prior"][name] - true))
            covered.append(found["low"][name] <= true <= found["high"][name])
    return PriorEstimates(float(np.mean(errors)), 100 * float(np.mean(covered))) if errors else None


@dataclass(frozen=True)
class CellDifference:
    """One system minus another in a cell, over the draws that both have; in points."""

    cell: CellName
    draws: int
    accuracy: Interval
    macro_f1: Interval
    calibration_error: float


@dataclass(frozen=True)
class Comparison:
    """One system minus another in all cells that both have."""

    first: Row
    second: Row
    cells: tuple[CellDifference, ...]

    def mean(self, part: Literal["accuracy", "macro_f1"]) -> float:
        """Return the mean difference over cells."""
        return float(np.mean([getattr(cell, part).value for cell in self.cells]))

    def worst(self, part: Literal["accuracy", "macro_f1"]) -> CellDifference:
        """Return the cell with the lowest difference."""
        return min(self.cells, key=lambda cell: getattr(cell, part).value)

    def below(self, part: Literal["accuracy", "macro_f1"], margin: float) -> list[CellName]:
        """Return the cells whose whole 95 % interval is more than so many points below the second system."""
        return [cell.cell for cell in self.cells if getattr(cell, part).high < -margin]

    def less_calibrated(self, margin: float) -> list[CellName]:
        """Return the cells whose calibration error is more than so many points above the second system's."""
        return [cell.cell for cell in self.cells if cell.calibration_error > margin]


def compare(first: StudySystem, second: StudySystem) -> Comparison | None:
    """Compare two systems on the cells and draws that both have; None if there are none."""
    ours, theirs = (system.grouped("target", "prevalence", "draw") for system in (first, second))
    pairs: dict[CellName, list[tuple[list[Record], list[Record]]]] = {}
    for place in ours.keys() & theirs.keys():
        pairs.setdefault(CellName(*place[:2]), []).append((ours[place], theirs[place]))
    cells = [CellName(*place) for place in first.grouped("target", "prevalence")]
    found = tuple(_cell_difference(cell, pairs[cell]) for cell in cells if cell in pairs)
    return Comparison(first.row, second.row, found) if found else None


def _cell_difference(cell: CellName, pairs: Sequence[tuple[list[Record], list[Record]]]) -> CellDifference:
    pairs = sorted(pairs, key=lambda pair: pair[0][0]["draw"])
    samples = [_sample(cell, *pair) for pair in pairs]
    # Draws in place of domains: a row of another draw counts as another row.
    right = [
        {str(draw): (predicted[of] == y).mean(axis=0) for draw, (y, *predicted) in enumerate(samples)} for of in (0, 1)
    ]
    calibration = [score(ours, "calibration_error") - score(theirs, "calibration_error") for ours, theirs in pairs]
    return CellDifference(
        cell,
        len(pairs),
        _in_points(paired_test(*right).interval),
        _in_points(paired_macro_f1(samples)),
        float(np.mean(calibration)),
    )


def _sample(
    cell: CellName, ours: Sequence[Record], theirs: Sequence[Record]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the labels of a draw's test rows and the predictions of both systems, one line for each seed."""
    truths = [unpack(record["truth"][cell.target]) for record in (*ours, *theirs)]
    if any(not np.array_equal(truth, truths[0]) for truth in truths):
        names = " and ".join(f"{records[0]['category']}/{records[0]['system']}" for records in (ours, theirs))
        raise DataError(
            f"The records of {names} differ in the test rows of {cell}, draw {ours[0]['draw']}: they were made with "
            "different versions of the protocol. Delete the older ones and run 'multidomain reproduce' again."
        )
    first, second = (
        np.stack([unpack(record["predictions"][cell.target]) for record in records]) for records in (ours, theirs)
    )
    return truths[0], first, second


def _in_points(difference: Interval) -> Interval:
    return Interval(100 * difference.value, 100 * difference.low, 100 * difference.high)
