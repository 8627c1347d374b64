"""Which records count: those that match the recipe's current rows, for seeds with all their runs."""

from __future__ import annotations

from collections import Counter
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
    records: tuple[Record, ...]
    wanted: int

    @property
    def done(self) -> int:
        """Return the number of runs with a record."""
        return len(self.records)


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


@dataclass(frozen=True)
class Source:
    """Provenance of a table's figures."""

    records: int
    cpu_hours: float
    code: Mapping[str, int]  # hash -> number of records
    data: Mapping[str, str]  # name -> hash
    machine: Mapping[str, tuple[str, ...]]  # package or part -> all values found

    @classmethod
    def of(cls, records: Sequence[Record]) -> Source:
        """Return the provenance of some records."""
        parts = ("multidomain", "python", "torch", "numpy", "scikit-learn", "cpu")
        return cls(
            records=len(records),
            cpu_hours=sum(record["cpu_seconds"] for record in records) / 3600,
            code=Counter(record["code"] for record in records),
            data={record["data"]["name"]: record["data"]["sha256"] for record in records},
            machine={part: tuple(sorted({str(record["machine"][part]) for record in records})) for part in parts},
        )


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
                    incomplete.append(Incomplete(row, variant, seed, found, len(split_specs)))
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
        # Validating settings is the slowest step here.
        self._identity, self._specs = cache(self._identity_of), cache(self._specs_of)
        self._is_random = cache(lambda name: self._rows[name].is_random)

    def spec(self, record: Record, row: Row) -> SplitSpec | None:
        """Return the split spec of a record, or None if the row no longer has such a run."""
        if (record["seed"] is None) == self._is_random(row.name):
            return None
        names, specs = self._specs(row.name)
        spec = specs.get(tuple(record.get(name) for name in names))
        if spec is None or not is_of(record, {**spec, **self._identity(row.name, record["seed"])}):
            return None
        return spec

    def _specs_of(self, name: str) -> tuple[tuple[str, ...], dict[tuple[Any, ...], SplitSpec]]:
        """Return the names that the specs of a row have, and the specs by their values."""
        specs = self._recipe.split_specs(self._rows[name])
        return tuple(specs[0]) if specs else (), {tuple(spec.values()): spec for spec in specs}

    def _identity_of(self, name: str, seed: int | None) -> dict[str, Any]:
        return Run(self._table, self._rows[name], seed, {}).identity()
