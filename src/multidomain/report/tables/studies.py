"""From the records of a study to its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from multidomain.experiments.recipes import Recipe, Row
from multidomain.experiments.records import Record
from multidomain.experiments.significance import Interval
from multidomain.report.tables.records import (
    Incomplete,
    SeedRuns,
    Source,
    TableRecords,
    Variant,
    row_variants,
    sort_out,
)
from multidomain.report.tables.study_cells import Comparison, StudySystem, compare, score

BASELINE = "shared/LR"
OURS = "shared-private/SPED"
WITHOUT_SELF_TRAINING = "shared-private/SPED without self-training"


@dataclass(frozen=True)
class StudyVariant:
    """The systems of a study with one kind of target text, and how they compare.

    Attributes
    ----------
    target_text
        None where the study has no target.
    systems
        Those with a run, in the order of the recipe.
    missing
        Names of those without.
    against_baseline
        Each system minus plain LR, where it has the same runs.
    self_training
        SPED minus SPED without self-training.
    with_all_labels
        SPED minus plain LR where the target has all its labels, in a study of the number of labels.
    """

    target_text: str | None
    systems: tuple[StudySystem, ...]
    missing: tuple[str, ...]
    against_baseline: tuple[Comparison, ...] = ()
    self_training: Comparison | None = None
    with_all_labels: Comparison | None = None

    def system(self, name: str) -> StudySystem | None:
        """Return a system by the name of its row, if it has runs."""
        return next((system for system in self.systems if system.row.name == name), None)

    def against(self, system: StudySystem) -> Comparison | None:
        """Return a system's comparison with plain LR."""
        return next((found for found in self.against_baseline if found.first == system.row), None)


@dataclass(frozen=True)
class StudyResults:
    """All results of a study.

    Attributes
    ----------
    labels
        Name of the number of labels, in records, where the runs differ in it; None where they differ in the class
        prior alone.
    """

    name: str
    title: str
    labels: str | None
    variants: tuple[StudyVariant, ...]
    records: TableRecords
    source: Source


def aggregate_study(study: str, recipe: Recipe, records: Sequence[Record]) -> StudyResults:
    """Compute the figures of a study from its records; without one that counts it has no variants."""
    counting = sort_out(study, recipe, records)
    kinds = dict.fromkeys(kind for row in recipe.rows for kind in row_variants(recipe, row))
    labels = _number_of_labels(recipe)
    variants = [_variant(recipe, kind, counting, labels) for kind in kinds]
    found = [*counting.used, *(record for lacking in counting.incomplete for record in lacking.records)]
    return StudyResults(
        name=study,
        title=recipe.title,
        labels=labels,
        variants=tuple(variant for variant in variants if variant.systems),
        records=counting,
        source=Source.of(found),
    )


def _variant(recipe: Recipe, kind: Variant, counting: TableRecords, labels: str | None) -> StudyVariant:
    found = [_system(recipe, row, kind, counting) for row in recipe.rows]
    systems = tuple(system for system in found if system.records)
    if all(system.is_borrowed for system in systems):  # they stand under the text that they ran with
        systems = ()
    variant = StudyVariant(kind.target_text, systems, tuple(system.row.name for system in found if not system.records))
    baseline, ours, without = (variant.system(name) for name in (BASELINE, OURS, WITHOUT_SELF_TRAINING))
    if labels == "target_labels" and ours and baseline:
        everything = compare(*(system.only(target_labels="all") for system in (ours, baseline)))
        return replace(variant, with_all_labels=everything)
    if labels:
        return variant
    against = [compare(system, baseline) for system in systems if baseline and system is not baseline]
    return replace(
        variant,
        against_baseline=tuple(comparison for comparison in against if comparison),
        self_training=compare(ours, without) if ours and without else None,
    )


def _number_of_labels(recipe: Recipe) -> str | None:
    specs = [spec for row in recipe.rows for spec in recipe.split_specs(row)]
    names = ("labels", "target_labels")
    return next((name for name in names if len({spec.get(name) for spec in specs}) > 1), None)


def _system(recipe: Recipe, row: Row, kind: Variant, counting: TableRecords) -> StudySystem:
    variants = row_variants(recipe, row)
    ran_as = kind if kind in variants else next(iter(variants))  # it reads no unlabelled text, so it ran with one kind
    found: tuple[SeedRuns | Incomplete, ...] = (*counting.complete, *counting.incomplete)
    runs = [runs for runs in found if (runs.row, runs.variant) == (row, ran_as)]
    records = tuple(record for of_seed in runs for record in of_seed.records)
    seeds = max(row.seeds if row.is_random else 1, len(runs))
    return StudySystem(row, records, seeds * len(variants[ran_as]), is_borrowed=ran_as != kind)


def by_labels(system: StudySystem, name: str) -> dict[Any, float]:
    """Return the mean accuracy by number of labels, in the order of the runs; `name` is that of the number."""
    return {labels: score(records, "test") for (labels,), records in system.grouped(name).items()}


def gap_closed(system: StudySystem, resamples: int = 1000, seed: int = 0) -> dict[Any, Interval]:
    """Return what share of the accuracy between no label of the target and all of them so many labels bring.

    With A(n) the mean accuracy with n labels, the share is (A(n) - A(0)) / (A(all) - A(0)); its 95 % interval is by
    bootstrap over draws and targets. Counts are the splits that have runs with all numbers of labels; there is no
    share unless the gap is positive in every resample.
    """
    by_split = system.grouped("draw", "target", "prevalence", "target_labels")
    numbers = list(dict.fromkeys(place[-1] for place in by_split))
    middle = [n for n in numbers if n not in (0, "all")]
    units: dict[tuple[Any, ...], list[list[float]]] = {}
    for place in dict.fromkeys(place[:-1] for place in by_split):
        if {0, "all"} <= set(numbers) and all((*place, n) in by_split for n in numbers):
            scores = [score(by_split[(*place, n)], "test") for n in (0, *middle, "all")]
            units.setdefault(place[:2], []).append(scores)
    if not units:
        return {}
    accuracies = np.array([np.mean(scores, axis=0) for scores in units.values()])  # (units, numbers of labels)
    n = len(accuracies)
    drawn = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), resamples)
    means = np.vstack([np.ones(n), drawn]) @ accuracies / n
    none, all_ = means[:, :1], means[:, -1:]
    if (all_ <= none).any():
        return {}
    shares = ((means - none) / (all_ - none))[:, 1:-1]
    low, high = np.quantile(shares[1:], [0.025, 0.975], axis=0)
    return {m: Interval(*map(float, of)) for m, *of in zip(middle, shares[0], low, high, strict=True)}
