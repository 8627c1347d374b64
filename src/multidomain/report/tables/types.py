"""The figures of a report, as numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from multidomain.experiments.recipes import Row
from multidomain.experiments.significance import PairedTest
from multidomain.report.tables.records import Source, TableRecords, Variant
from multidomain.report.tables.studies import StudyResults


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
        """Return the name as in a recipe, without the category where the paper gives none."""
        return self.system if self.category is None else f"{self.category}/{self.system}"

    def is_of(self, row: Row) -> bool:
        """Tell whether this is the published counterpart of a row."""
        return self.system == row.system and self.category in (None, row.category)

    @property
    def mean(self) -> float:
        """Return the mean over domains, which should equal the printed average."""
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
        p-value of the seeds' averages against the strongest competitor's published figure.
    is_authors
        Whether the paper's authors measured this row themselves, on this data.
    is_borrowed
        Whether the runs are those with the other target text, which the system does not read.
    correct
        By domain, how often each test row was predicted correctly: the mean over seeds.
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
        """Return the average minus the published one."""
        return None if self.published is None else self.average - self.published.average

    @property
    def is_within_two_se(self) -> bool | None:
        """Tell whether it falls short by at most two combined standard errors; an unknown one counts as 0."""
        if self.difference is None or self.published is None:
            return None
        return self.difference >= -2 * self.combined_se

    @property
    def combined_se(self) -> float:
        """Return the standard error of the difference; an unknown one, ours or the published, counts as 0."""
        return math.hypot(self.se or 0.0, (self.published.se if self.published else None) or 0.0)


@dataclass(frozen=True)
class Pair:
    """Two of our systems on the same test rows; `p_holm` is Holm-corrected over the pairs of its list."""

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
        Rows of the recipe, and of the paper, without a complete seed.
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
class TableResults:
    """All results of one table; `split_seed` is None on the given split."""

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
    """All tables that have records, remarks on them, the same tables on new splits, and our own studies."""

    tables: tuple[TableResults, ...]
    remarks: str
    new_splits: tuple[TableResults, ...]
    studies: tuple[StudyResults, ...] = ()

    def given(self, table: TableResults, variant: Variant) -> VariantResults | None:
        """Return the counterpart of a table's variant on the given split, if it has one."""
        of_name = [other for other in self.tables if other.name == table.name]
        return next((results for other in of_name for results in other.variants if results.variant == variant), None)
