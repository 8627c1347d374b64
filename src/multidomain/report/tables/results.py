"""From records to the numbers of the tables; how they look is the matter of the files beside this one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from multidomain.errors import DataError, counted
from multidomain.experiments.recipes import STUDIES, TABLES, Recipe, Row, load_recipe
from multidomain.experiments.records import Record, new_split_seeds, read_records, records_file, unpack
from multidomain.experiments.significance import holm, paired_test, published_test
from multidomain.report.tables.records import SeedRuns, Source, Variant, row_variants, sort_out
from multidomain.report.tables.studies import aggregate_study
from multidomain.report.tables.types import Pair, Published, Results, SystemResult, TableResults, VariantResults

REMARKS = "remarks.md"

VARIANTS = tuple(Variant(selection, text) for text in ("train", "test") for selection in ("oracle", "source-dev"))
"""Variants of Table 2, the one comparable with the paper first."""

ASKED = (("MAN-NLL-SP-MLP", "SP-MLP"), ("MAN-NLL-SP-MLP", "FA-LR"), ("MAN-NLL-SP-CNN", "FA-SVM"))
"""Pre-selected pairs: does the adversary help, and does a network help at all?"""


def load_results(folder: Path) -> Results:
    """Read the records in a folder and aggregate them."""
    if not folder.is_dir():
        raise DataError(f"There is no folder {folder}. {_what_to_do(folder)}")
    splits = [(table, seed) for table in TABLES for seed in (None, *new_split_seeds(folder, table))]
    records = {(name, seed): read_records(records_file(folder, name, seed)) for name, seed in splits}
    of_studies = {name: read_records(records_file(folder, name)) for name in STUDIES}
    n_records = sum(map(len, (*records.values(), *of_studies.values())))
    if not n_records:
        names = " or ".join(f"{name}.jsonl" for name in (*TABLES, *STUDIES))
        raise DataError(f"{folder} holds no records, expected some in {names}. {_what_to_do(folder)}")
    tables = [
        aggregate(table, load_recipe(table).on_split(seed), found) for (table, seed), found in records.items() if found
    ]
    studies = [aggregate_study(name, load_recipe(name), found) for name, found in of_studies.items() if found]
    if not any(table.variants for table in tables) and not any(study.variants for study in studies):
        sorted_out = [*(table.records for table in tables), *(study.records for study in studies)]
        begun, stale = (sum(of) for of in zip(*((len(r.incomplete), r.stale) for r in sorted_out), strict=True))
        raise DataError(
            f"{folder} holds {counted(n_records, 'record')}, but no row of a table has all runs "
            f"of a seed: {counted(begun, 'seed')} incomplete, {counted(stale, 'record')} with other settings or data. "
            f"{_what_to_do(folder)}"
        )
    remarks = folder / REMARKS
    return Results(
        tables=tuple(table for table in tables if table.split_seed is None),
        remarks=remarks.read_text(encoding="utf-8").strip() if remarks.exists() else "",
        new_splits=tuple(table for table in tables if table.split_seed is not None),
        studies=tuple(studies),
    )


def _what_to_do(folder: Path) -> str:
    return f"Run 'multidomain reproduce {TABLES[0]} --results {folder}', or give the folder that has the records."


def aggregate(table: str, recipe: Recipe, records: Sequence[Record]) -> TableResults:
    """Compute the figures of a table from its records; without a complete seed it has no variants."""
    counting = sort_out(table, recipe, records)
    maker = _Table(table, recipe, counting.complete)
    has_targets = any(runs.variant != Variant() for runs in counting.complete)
    variants = [maker.variant(variant) for variant in (VARIANTS if has_targets else (Variant(),))]
    return TableResults(
        name=table,
        title=recipe.title,
        split_seed=recipe.split_seed,
        domains=maker.domains,
        competitor=maker.competitor,
        variants=tuple(variant for variant in variants if variant.systems),
        records=counting,
        source=Source.of(counting.used),
    )


def is_authors(table: str, system: str) -> bool:
    """Tell whether the paper's authors measured a system themselves; their other figures are quoted."""
    others = {"table1": ("SP-MLP", "MLP"), "table3": ("CNN",)}
    return system.startswith("MAN") or system in others.get(table, ())


def published_rows(recipe: Recipe) -> list[Published]:
    """Return the paper's table."""
    table = recipe.published_table()
    others = ("category", "system", "average")
    domains = [name for name in table.columns if name not in others and not name.startswith("se_")]
    return [
        Published(
            category=row.get("category"),
            system=row["system"],
            domains={name: row[name] for name in domains},
            average=row["average"],
            se=row.get("se_average"),
        )
        for row in table.iter_rows(named=True)
    ]


class _Table:
    """Makes the results of one table's variants."""

    def __init__(self, name: str, recipe: Recipe, complete: Sequence[SeedRuns]):
        self.name, self.recipe, self.complete = name, recipe, complete
        self.published = published_rows(recipe)
        self.domains = tuple(self.published[0].domains)
        quoted = [row for row in self.published if not is_authors(name, row.system)]
        self.competitor = max(quoted, key=lambda row: row.average)

    def variant(self, variant: Variant) -> VariantResults:
        """Return the results of all rows that have a complete seed."""
        found = [self._system(row, variant) for row in self.recipe.rows]
        systems = [system for system in found if system]
        missing = [row.name for row, system in zip(self.recipe.rows, found, strict=True) if system is None]
        missing += [known.name for known in self.published if not any(map(known.is_of, self.recipe.rows))]
        return VariantResults(
            variant, tuple(systems), tuple(missing), _pairs(_with_best(systems)), _pairs(_asked(systems))
        )

    def _system(self, row: Row, variant: Variant) -> SystemResult | None:
        ran_as = variant
        if variant not in row_variants(self.recipe, row):  # it reads no unlabelled text, so it ran with one kind
            ran_as = Variant(variant.selection, "train")
        seeds = [runs for runs in self.complete if runs.row == row and runs.variant == ran_as]
        if not seeds:
            return None
        averages = tuple(float(np.mean(list(_by_domain(runs, "test").values()))) for runs in seeds)
        return SystemResult(
            row=row,
            seeds=tuple(runs.seed for runs in seeds),
            domains=_over_seeds(lambda runs: _by_domain(runs, "test"), seeds),
            averages=averages,
            clean=float(np.mean([np.mean(list(_by_domain(runs, "clean").values())) for runs in seeds])),
            cpu_seconds=float(np.median([record["cpu_seconds"] for runs in seeds for record in runs.records])),
            published=next((known for known in self.published if known.is_of(row)), None),
            p_competitor=published_test(averages, self.competitor.average),
            is_authors=is_authors(self.name, row.system),
            is_borrowed=ran_as != variant,
            correct=_over_seeds(_correct, seeds),
        )


def _over_seeds(figure: Callable[[SeedRuns], dict[str, Any]], seeds: Sequence[SeedRuns]) -> dict[str, Any]:
    """Return the mean over seeds of a figure that has a value for each domain."""
    of_seeds = [figure(runs) for runs in seeds]
    return {domain: np.mean([values[domain] for values in of_seeds], axis=0) for domain in of_seeds[0]}


def _by_domain(runs: SeedRuns, part: str) -> dict[str, float]:
    """Return accuracies in per cent, means over the runs that test a domain: all folds, or those of one target."""
    domains = dict.fromkeys(domain for record in runs.records for domain in record[part])
    of_domain = {name: [record[part][name] for record in runs.records if name in record[part]] for name in domains}
    return {name: 100 * float(np.mean(accuracies)) for name, accuracies in of_domain.items()}


def _correct(runs: SeedRuns) -> dict[str, np.ndarray]:
    """Return which test rows were predicted correctly, concatenated over runs."""
    domains = dict.fromkeys(domain for record in runs.records for domain in record["truth"])
    return {
        name: np.concatenate(
            [
                unpack(record["predictions"][name]) == unpack(record["truth"][name])
                for record in runs.records
                if name in record["truth"]
            ]
        )
        for name in domains
    }


def _with_best(systems: Sequence[SystemResult]) -> list[tuple[SystemResult, SystemResult]]:
    best = max(systems, key=lambda system: system.average, default=None)
    return [(system, best) for system in systems if best and system is not best]


def _asked(systems: Sequence[SystemResult]) -> list[tuple[SystemResult, SystemResult]]:
    return [
        (first, second)
        for names in ASKED
        for first in systems
        for second in systems
        if (first.row.system, second.row.system) == names
    ]


def _pairs(pairs: Sequence[tuple[SystemResult, SystemResult]]) -> tuple[Pair, ...]:
    tests = [paired_test(first.correct, second.correct) for first, second in pairs]
    corrected = holm([test.p for test in tests])
    return tuple(
        Pair(first.row, second.row, test, p) for (first, second), test, p in zip(pairs, tests, corrected, strict=True)
    )
