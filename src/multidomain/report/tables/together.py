"""All rows of a kind against their published figures at once: what is small in each row shows only together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from multidomain.experiments.significance import CombinedTest, combined_test
from multidomain.report.tables.layout import ABOVE, BELOW, SIGNIFICANT, Cell, Grid, p_value
from multidomain.report.tables.types import SystemResult, TableResults

EXPLANATION = (
    "The systems that the paper's authors measured themselves, in the variants that compare with theirs: the mean "
    "difference to the published averages over all rows of a kind, and whether it is zero (*p*, two-sided, by normal "
    "approximation). A shortfall within the error of every row shows here. Rows with a single seed have no error and "
    "are left out; a standard error that the paper does not print counts as zero, so that p is then too small. All "
    "rows of a table share its test rows, whose sampling is not part of the error."
)
KINDS = {"all": "", "MAN": "MAN-"}
"""Kinds of rows, and what the names of their systems begin with."""


@dataclass(frozen=True)
class Together:
    """All rows of a kind in a table, or in all tables."""

    kind: str
    tables: str
    rows: int
    test: CombinedTest


def rows_together(tables: Sequence[TableResults]) -> list[Together]:
    """Return the tests of each table and of all, for the kinds of which there are several rows."""
    of_tables = {table.name: _comparable(table) for table in tables}
    if len(of_tables) > 1:
        of_tables["all tables"] = [system for systems in of_tables.values() for system in systems]
    found = []
    for kind, prefix in KINDS.items():
        for name, systems in of_tables.items():
            of_kind = [system for system in systems if system.row.system.startswith(prefix)]
            if len(of_kind) > 1:
                differences = [system.difference or 0.0 for system in of_kind]
                test = combined_test(differences, [system.combined_se for system in of_kind])
                found.append(Together(kind, name, len(of_kind), test))
    return found


def together_grid(tests: Sequence[Together]) -> Grid:
    """Lay out the tests."""
    rows = tuple(
        (
            Cell(one.kind),
            Cell(one.tables),
            Cell(str(one.rows)),
            Cell(f"{one.test.difference:+.2f} ± {one.test.standard_error:.2f}"),
            Cell(p_value(one.test.p) + _direction(one.test)),
        )
        for one in tests
    )
    return Grid(("kind", "tables", "rows", "mean difference ± SE", "p"), 2, rows)


def _comparable(table: TableResults) -> list[SystemResult]:
    return [
        system
        for results in table.variants
        if results.variant.compares
        for system in results.systems
        if system.is_authors and system.published and system.se
    ]


def _direction(test: CombinedTest) -> str:
    if test.p >= SIGNIFICANT:
        return ""
    return f" {ABOVE if test.difference > 0 else BELOW}"
