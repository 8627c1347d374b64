"""Which records count: those of the recipe's rows as they are now, where a seed has all of its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from multidomain.experiments.protocols import SplitSpec
from multidomain.experiments.recipes import Recipe, Row
from multidomain.experiments.records import Record, is_of
from multidomain.experiments.runner import Run


@dataclass(frozen=True)
class Variant:
    """The rules that runs were made under; Table 1 has one way only, where both are None."""

    selection: str | None = None
    target_text: str | None = None

    @classmethod
    def of(cls, place: Mapping[str, Any]) -> Variant:
        """Return the variant that a place, or a record, belongs to."""
        return cls(place.get("selection"), place.get("target_text"))

    @property
    def compares(self) -> bool:
        """Tell whether the paper's authors measured in this way."""
        return self in (Variant(), Variant("oracle", "train"))


@dataclass(frozen=True)
class SeedRuns:
    """All runs of a row under one variant and seed."""

    row: Row
    variant: Variant
    seed: int | None
    records: tuple[Record, ...]


@dataclass(frozen=True)
class Incomplete:
    """A seed that lacks runs."""

    row: Row
    variant: Variant
    seed: int | None
    done: int
    wanted: int


@dataclass(frozen=True)
class TableRecords:
    """The records of a table, sorted out.

    Attributes
    ----------
    complete
        In the order of the recipe's rows, then of seeds.
    stale
        How many records are of a row, a setting or data that the table no longer has.
    superseded
        How many have a later record of the same run.
    """

    complete: tuple[SeedRuns, ...]
    incomplete: tuple[Incomplete, ...]
    stale: int
    superseded: int

    @property
    def used(self) -> list[Record]:
        """Return the records that count."""
        return [record for runs in self.complete for record in runs.records]


def sort_out(table: str, recipe: Recipe, records: Sequence[Record]) -> TableRecords:
    """Find the runs that count.

    Of several records of one run the last counts. What was measured on other data than the last record of the file
    is stale: figures of two corpora must not stand in one table.
    """
    rows = {(row.category, row.system): row for row in recipe.rows}
    data = records[-1]["data"] if records else None
    fitting = _Fitting(table, recipe)
    kept: dict[tuple[str, int | None, str], Record] = {}
    stale = superseded = 0
    for record in records:
        row = rows.get((record["category"], record["system"]))
        place = fitting.place(record, row) if row and record["data"] == data else None
        if row is None or place is None:
            stale += 1
            continue
        key = (row.name, record["seed"], str(place))
        superseded += key in kept
        kept[key] = record
    complete: list[SeedRuns] = []
    incomplete: list[Incomplete] = []
    for row in recipe.rows:
        seeds = sorted({seed for name, seed, _ in kept if name == row.name}, key=lambda seed: seed or 0)
        for seed in seeds:
            for variant, places in row_variants(recipe, row).items():
                keys = [(row.name, seed, str(place)) for place in places]
                found = tuple(kept[key] for key in keys if key in kept)
                if len(found) == len(places):
                    complete.append(SeedRuns(row, variant, seed, found))
                elif found:
                    incomplete.append(Incomplete(row, variant, seed, len(found), len(places)))
    return TableRecords(tuple(complete), tuple(incomplete), stale, superseded)


def row_variants(recipe: Recipe, row: Row) -> dict[Variant, list[SplitSpec]]:
    """Return the runs that make a seed of a row complete, for each variant that the row is run under."""
    variants: dict[Variant, list[SplitSpec]] = {}
    for place in recipe.places(reads_text=row.reads_text):
        variants.setdefault(Variant.of(place), []).append(place)
    return variants


class _Fitting:
    """Finds the run of the recipe that a record is of."""

    def __init__(self, table: str, recipe: Recipe):
        self._table, self._recipe = table, recipe
        self._rows = {row.name: row for row in recipe.rows}
        self._identity = cache(self._identity_of)  # checking settings takes longer than all else here

    def place(self, record: Record, row: Row) -> SplitSpec | None:
        """Return the place of a record in its protocol, or None if the row has no such run now."""
        if (record["seed"] is None) == row.is_random:
            return None
        identity = self._identity(row.name, record["seed"])
        places = row_variants(self._recipe, row).get(Variant.of(record), [])
        return next((place for place in places if is_of(record, {**place, **identity})), None)

    def _identity_of(self, name: str, seed: int | None) -> dict[str, Any]:
        return Run(self._table, self._rows[name], seed, {}).identity()
