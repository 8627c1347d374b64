"""A report in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from multidomain.errors import counted
from multidomain.report.tables.layout import (
    ABOVE,
    BELOW,
    NONE,
    SIGNIFICANT,
    main_grid,
    new_split_grid,
    pairs_grid,
    variant_title,
)
from multidomain.report.tables.markdown_grid import dropped, grid_markdown, line
from multidomain.report.tables.records import Source, TableRecords, Variant
from multidomain.report.tables.study_markdown import studies_part
from multidomain.report.tables.together import EXPLANATION, rows_together, together_grid
from multidomain.report.tables.types import Pair, Results, TableResults, VariantResults

VARIANT_TEXTS = {
    "oracle": "The epoch, or the regularisation, is chosen on labels of the target, as the paper's authors did; "
    "all labelled rows of the sources are used for training.",
    "source-dev": "The epoch, or the regularisation, is chosen on held-out rows of the sources; no label of the "
    "target is used.",
    "train": "Unlabelled text of the target: its `train` file, as in the authors' code.",
    "test": "Unlabelled text of the target: its `test` file, whose rows are scored (transductive).",
}
ROLES = {
    Variant("oracle", "train"): "**This variant is comparable with the paper.**",
    Variant("source-dev", "train"): "**This is the default: it needs no label of the target.**",
}
NEW_SPLITS = (
    "The same rules on data re-split by `multidomain reproduce TABLE --split-seed SEED` at the given sizes. The splits "
    "are new, the rows are not: some of the test rows were in the dev set of the given split. Duplicates are kept in "
    "one part, so that no text is in both training and test, as many are on the given split; **clean** drops the test "
    "rows whose text is in any other part, unlabelled text included. Accuracies in per cent, means over domains and "
    "seeds, best first, beside those of the tables above. **rank** is the rank among the systems of a list; where "
    "both ranks agree, the order is the same on both splits."
)


def markdown_report(results: Results, plots: Mapping[str, str], plots_missing: str = "", development: str = "") -> str:
    """Return a report as Markdown.

    Parameters
    ----------
    plots
        File name of the plot of each table and study, relative to the report; some may have none.
    plots_missing
        Why there are no plots.
    development
        A table of the settings tried on the dev set.
    """
    tables = [table for table in results.tables if table.variants]
    parts = ["# Results", "Made by `multidomain report` from the records of `multidomain reproduce`; do not edit."]
    if tables:
        parts += ["## How to read the tables", _legend(tables)]
    if plots_missing:
        parts.append(f"There are no plots: {plots_missing}")
    for table in results.tables:
        parts += _table(table, plots.get(table.name))
    together = rows_together(tables)
    if together:
        parts += ["## The paper's own rows together", EXPLANATION, grid_markdown(together_grid(together))]
    if results.new_splits:
        parts += ["## On new splits", NEW_SPLITS]
    for table in results.new_splits:
        parts += _new_split(table, results)
    parts += studies_part(results.studies, plots)
    if results.remarks:
        parts += ["## Remarks", results.remarks]
    if development:
        tried = (
            "Made by `benchmarks/development.py` on dev sets. The dev set of fold 0 is the test set of run 4, so "
            "choices made on it slightly favour that run."
        )
        parts += ["## Settings tried", tried, development]
    of_tables = [table for table in (*tables, *results.new_splits) if table.variants]
    of_studies = [study for study in results.studies if study.variants]
    sources = {_with_split(table): table.source for table in of_tables} | {s.name: s.source for s in of_studies}
    parts += ["## Where the figures come from", _sources(sources)]
    return "\n\n".join(parts) + "\n"


def _legend(tables: Sequence[TableResults]) -> str:
    competitors = ", ".join(f"{t.competitor.system} with {t.competitor.average:.2f} in {t.name}" for t in tables)
    lines = [
        "Accuracies in per cent. The best of each column is bold.",
        "",
        "- **domains**: mean over the runs that test a domain (five folds, or one target), then over seeds.",
        "- **average ± SE**: unweighted mean over domains; the standard error is over seeds. It covers the variation "
        "between seeds, not the sampling error of the test rows.",
        f"- **published**: the average that the paper prints ({NONE} where the paper has no such row), and "
        "**difference**: ours minus that. Figures that the paper quotes from elsewhere were measured with other "
        "features and splits.",
        "- **within 2 SE**: for the systems that the paper's authors measured themselves, whether ours falls short by "
        "at most two combined standard errors. A standard error that the paper does not print counts as zero.",
        "- **p**: two-sided one-sample t-test of our seeds' averages against the published average of the strongest "
        f"competitor ({competitors}); {ABOVE} significantly above it, {BELOW} below it, at {SIGNIFICANT}. "
        f"{NONE} for deterministic systems and for single seeds.",
        f"- **seeds**: number of seeds with all their runs. {NONE} for deterministic systems.",
        "- **clean**: the average over the test rows whose text is in no part that training or selection reads.",
        "- **CPU s**: median CPU seconds of one run.",
        "",
        "**Paired tests** compare two of our systems over the same test rows. A row's correctness is its mean over "
        "seeds; *difference* is in points, the mean over domains; *p* is two-sided, by normal approximation, with the "
        "test rows as the random sample; *p (Holm)* is corrected for the number of tests in the list and bold below "
        f"{SIGNIFICANT}. The best system was chosen on the same rows, so the others are somewhat closer to it than "
        "the tests suggest.",
    ]
    return "\n".join(lines)


def _table(table: TableResults, plot: str | None) -> list[str]:
    parts = [f"## {heading(table)}"]
    if plot:
        parts.append(f"![Average accuracy of each system: ours and the published]({plot})")
    if not table.variants:
        parts.append(f"No row has all runs of a seed yet: resume with `multidomain reproduce {table.name}`.")
    for results in table.variants:
        parts += _variant(table, results)
    left_out = _left_out(table.records)
    return [*parts, left_out] if left_out else parts


def heading(table: TableResults) -> str:
    """Return ``Table 1: ...``."""
    return f"Table {table.name.removeprefix('table')}: {table.title}"


def _new_split(table: TableResults, results: Results) -> list[str]:
    parts = [f"### {heading(table)}, split seed {table.split_seed}"]
    for found in table.variants:
        title = variant_title(found.variant)
        parts += [f"#### {title[0].upper() + title[1:]}"] if title else []
        parts.append(grid_markdown(new_split_grid(found, results.given(table, found.variant))))
    left_out = _left_out(table.records)
    return [*parts, left_out] if left_out else parts


def _variant(table: TableResults, results: VariantResults) -> list[str]:
    title = variant_title(results.variant)
    parts = []
    if title:
        rules = [VARIANT_TEXTS[str(rule)] for rule in (results.variant.selection, results.variant.target_text)]
        role = ROLES.get(results.variant, "")
        parts += [f"### {title[0].upper() + title[1:]}", " ".join(filter(None, [*rules, role]))]
    parts.append(grid_markdown(main_grid(table, results)))
    if results.missing:
        parts.append(f"No complete seed yet: {', '.join(results.missing)}.")
    if results.against_best:
        parts += [f"Paired tests against the best, {results.best.row.name}:", _pairs(results.against_best)]
    if results.asked:
        parts += ["Paired tests of pre-selected pairs:", _pairs(results.asked)]
    return parts


def _pairs(pairs: Sequence[Pair]) -> str:
    return grid_markdown(pairs_grid(pairs))


def _left_out(records: TableRecords) -> str:
    lines = []
    if records.incomplete:
        seeds = [
            f"{' '.join(filter(None, (lacking.row.name, variant_title(lacking.variant))))}"
            f"{'' if lacking.seed is None else f' seed {lacking.seed}'} ({lacking.done} of {lacking.wanted} runs)"
            for lacking in records.incomplete
        ]
        lines.append(f"- incomplete: {counted(len(seeds), 'seed')} dropped: {'; '.join(seeds)}.")
    return "\n".join([*lines, *dropped(records)])


def _with_split(table: TableResults) -> str:
    return table.name if table.split_seed is None else f"{table.name}, split seed {table.split_seed}"


def _sources(sources: Mapping[str, Source]) -> str:
    """Lay out the provenance of each table, by its name."""
    found = list(sources.values())
    rows = {
        "records": [f"{source.records:,}" for source in found],
        "CPU hours": [f"{source.cpu_hours:.1f}" for source in found],
        "data (SHA-256)": [", ".join(f"{n} `{sha[:12]}`" for n, sha in source.data.items()) for source in found],
        "code (hash, records)": [
            ", ".join(f"`{sha[:8]}` {number}" for sha, number in source.code.items()) for source in found
        ],
    }
    for part in found[0].machine:
        rows[part] = [", ".join(source.machine[part]) for source in found]
    lines = [line(["", *sources]), "|---|" + "---|" * len(sources)]
    return "\n".join(lines + [line([name, *values]) for name, values in rows.items()])
