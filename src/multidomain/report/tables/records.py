"""Which records count: those that match the recipe's current rows, for seeds with all their runs."""

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
    """The selection rule and target text of runs; both are None in Table 1, which has one variant only."""

    selection: str | None = None
    target_text: str | None = None

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> Variant:
        """Return the variant of a split spec or of a record."""
        return cls(spec.get("selection"), spec.get("target_text"))

    @property
    def compares(self) -> bool:
        """Tell whether the paper's authors used this variant."""
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
    """A seed with missing runs."""

    row: Row
    variant: Variant
    seed: int | None
    done: int
    wanted: int


@dataclass(frozen=True)
class TableRecords:
    """The records of a table, sorted by whether they count.

    Attributes
    ----------
    complete
        In the order of the recipe's rows, then of seeds.
    stale
        Number of records with a row, settings or data that the table no longer has.
    superseded
        Number of records with a later record of the same run.
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

    Of several records of one run the last counts. Records measured on other data than the last record of the file are
    stale: one table must not mix figures of two corpora.
    """
    rows = {(row.category, row.system): row for row in recipe.rows}
    data = records[-1]["data"] if records else None
    fitting = _Fitting(table, recipe)
    kept: dict[tuple[str, int | None, str], Record] = {}
    stale = superseded = 0
    for record in records:
        row = rows.get((record["category"], record["system"]))
        spec = fitting.spec(record, row) if row and record["data"] == data else None
        if row is None or spec is None:
            stale += 1
            continue
        key = (row.name, record["seed"], str(spec))
        superseded += key in kept
        kept[key] = record
    complete: list[SeedRuns] = []
    incomplete: list[Incomplete] = []
    for row in recipe.rows:
        seeds = sorted({seed for name, seed, _ in kept if name == row.name}, key=lambda seed: seed or 0)
        for seed in seeds:
            for variant, split_specs in row_variants(recipe, row).items():
                keys = [(row.name, seed, str(spec)) for spec in split_specs]
                found = tuple(kept[key] for key in keys if key in kept)
                if len(found) == len(split_specs):
                    complete.append(SeedRuns(row, variant, seed, found))
                elif found:
                    incomplete.append(Incomplete(row, variant, seed, len(found), len(split_specs)))
    return TableRecords(tuple(complete), tuple(incomplete), stale, superseded)


def row_variants(recipe: Recipe, row: Row) -> dict[Variant, list[SplitSpec]]:
    """Return, for each variant of a row, the runs that make a seed complete."""
    variants: dict[Variant, list[SplitSpec]] = {}
    for spec in recipe.split_specs(row):
        variants.setdefault(Variant.of(spec), []).append(spec)
    return variants


class _Fitting:
    """Finds the run of the recipe that a record belongs to."""

    def __init__(self, table: str, recipe: Recipe):
        self._table, self._recipe = table, recipe
        self._rows = {row.name: row for row in recipe.rows}
        self._identity = cache(self._identity_of)  # validating settings is the slowest step here

    def spec(self, record: Record, row: Row) -> SplitSpec | None:
        """Return the split spec of a record, or None if the row no longer has such a run."""
        if (record["seed"] is None) == row.is_random:
            return None
        identity = self._identity(row.name, record["seed"])
        split_specs = row_variants(self._recipe, row).get(Variant.of(record), [])
        return next((spec for spec in split_specs if is_of(record, {**spec, **identity})), None)

    def _identity_of(self, name: str, seed: int | None) -> dict[str, Any]:
        return Run(self._table, self._rows[name], seed, {}).identity()
