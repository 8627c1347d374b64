"""The figures of a report, as numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from multidomain.experiments.recipes import Row
from multidomain.experiments.significance import PairedTest
from multidomain.report.tables.records import TableRecords, Variant


@dataclass(frozen=True)
class Published:
    """A row of the paper's table, in per cent."""

    category: str | None
    system: str
    domains: Mapping[str, float]
    average: float
    se: float | None

    @property
    def name(self) -> str:
        """Return the name as rows of a recipe have it, without the category where the paper gives none."""
        return self.system if self.category is None else f"{self.category}/{self.system}"

    def is_of(self, row: Row) -> bool:
        """Tell whether this is the published counterpart of a row."""
        return self.system == row.system and self.category in (None, row.category)

    @property
    def mean(self) -> float:
        """Return the mean over domains, which the printed average ought to be."""
        return float(np.mean(list(self.domains.values())))


@dataclass(frozen=True)
class SystemResult:
    """A row of our table, in per cent.

    Attributes
    ----------
    domains
        Mean over runs, then over seeds.
    averages
        Over domains, one for each seed.
    clean
        The average on test rows whose text is in no part that training may read.
    p_competitor
        Of the seeds' averages against the strongest competitor's published figure.
    is_authors
        Whether the paper's authors measured this row themselves, on these data.
    is_borrowed
        Whether it stands here though it was run with the other target text, which it does not read.
    correct
        By domain, how often each test row was answered correctly: the mean over seeds.
    """

    row: Row
    seeds: tuple[int | None, ...]
    domains: Mapping[str, float]
    averages: tuple[float, ...]
    clean: float
    cpu_seconds: float
    published: Published | None
    p_competitor: float | None
    is_authors: bool
    is_borrowed: bool
    correct: Mapping[str, np.ndarray] = field(repr=False)

    @property
    def average(self) -> float:
        """Return the mean over domains and seeds."""
        return float(np.mean(self.averages))

    @property
    def se(self) -> float | None:
        """Return the standard error of the average over seeds, if there are several."""
        n = len(self.averages)
        return float(np.std(self.averages, ddof=1) / math.sqrt(n)) if n > 1 else None

    @property
    def difference(self) -> float | None:
        """Return by how much the average exceeds the published one."""
        return None if self.published is None else self.average - self.published.average

    @property
    def is_within_two_se(self) -> bool | None:
        """Tell whether it falls short by at most two combined standard errors; an error not known counts as 0."""
        if self.difference is None or self.published is None:
            return None
        return self.difference >= -2 * math.hypot(self.se or 0.0, self.published.se or 0.0)


@dataclass(frozen=True)
class Pair:
    """Two of our systems over the same test rows; `p_holm` is corrected for the other pairs of its list."""

    first: Row
    second: Row
    test: PairedTest
    p_holm: float


@dataclass(frozen=True)
class VariantResults:
    """The systems measured under one variant, and how they compare.

    Attributes
    ----------
    missing
        Names of the rows of the recipe, and of the paper, that have no complete seed.
    against_best
        Each system against the one with the best average.
    """

    variant: Variant
    systems: tuple[SystemResult, ...]
    missing: tuple[str, ...]
    against_best: tuple[Pair, ...]
    asked: tuple[Pair, ...]

    @property
    def best(self) -> SystemResult:
        """Return the system with the best average."""
        return max(self.systems, key=lambda system: system.average)


@dataclass(frozen=True)
class Source:
    """Where a table's figures come from."""

    records: int
    cpu_hours: float
    code: Mapping[str, int]  # hash -> number of records
    data: Mapping[str, str]  # name -> hash
    machine: Mapping[str, tuple[str, ...]]  # package or part -> all values met


@dataclass(frozen=True)
class TableResults:
    """All of one table; `split_seed` is that of a new split, or None on the split that is given."""

    name: str
    title: str
    split_seed: int | None
    domains: tuple[str, ...]
    competitor: Published
    variants: tuple[VariantResults, ...]
    records: TableRecords
    source: Source


@dataclass(frozen=True)
class Results:
    """All tables that have records, what somebody wrote about them, and the same tables on new splits."""

    tables: tuple[TableResults, ...]
    remarks: str
    new_splits: tuple[TableResults, ...]

    def given(self, table: TableResults, variant: Variant) -> VariantResults | None:
        """Return the counterpart of a table's variant on the given split, if it has one."""
        of_name = [other for other in self.tables if other.name == table.name]
        return next((results for other in of_name for results in other.variants if results.variant == variant), None)
