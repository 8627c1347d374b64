"""All files of a report: Markdown, and beside it LaTeX, CSV and a plot for each table, CSV and plots of studies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from multidomain.data.writing import table_writer
from multidomain.errors import ConfigError
from multidomain.files import whole_file
from multidomain.report.tables.development import development_section
from multidomain.report.tables.latex import latex_table
from multidomain.report.tables.markdown import markdown_report
from multidomain.report.tables.plots import plot_study, plot_table
from multidomain.report.tables.records import Variant
from multidomain.report.tables.results import load_results
from multidomain.report.tables.study_csv import study_lines
from multidomain.report.tables.types import SystemResult, TableResults


@dataclass(frozen=True)
class Written:
    """The files of a report, and why there are no plots, if there are none."""

    files: tuple[Path, ...]
    plots_missing: str


def write_report(results_folder: Path, output: Path) -> Written:
    """Read the records in a folder and write a report of them.

    Parameters
    ----------
    output
        The Markdown file. ``<its stem>_table1.tex``, ``.csv`` and ``.svg`` are written beside it, and likewise for
        the other tables; a table with no complete row has none. A study has ``.csv`` and some ``.svg``.
    """
    if output.suffix != ".md" or output.is_dir():
        raise ConfigError(
            f"A report is a Markdown file with others beside it: give a name such as docs/results.md, not {output}."
        )
    results = load_results(results_folder)
    files, plots, plots_missing = [output], {}, ""

    def add(name: str, kind: str) -> Path:
        path = output.with_name(f"{output.stem}_{name}.{kind}")
        files.append(path)
        return path

    drawings: dict[str, Callable[[], bytes | None]] = {}
    for table in results.tables:
        if table.variants:
            _write(add(table.name, "tex"), latex_table(table).encode())
            _write_csv(add(table.name, "csv"), _table_lines(table))
            drawings[table.name] = partial(plot_table, table)
    for study in results.studies:
        if study.variants:
            _write_csv(add(study.name, "csv"), study_lines(study))
            drawings[study.name] = partial(plot_study, study)
    for name, draw in drawings.items():
        try:
            plot = draw()
        except ConfigError as error:
            plots_missing = str(error)
            break
        if plot:
            path = add(name, "svg")
            _write(path, plot)
            plots[name] = path.name
    _write(output, markdown_report(results, plots, plots_missing, development_section(results_folder)).encode())
    return Written(tuple(files), plots_missing)


def _write_csv(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write figures as CSV; unknown values are empty."""
    columns = list(dict.fromkeys(name for line in lines for name in line))
    with table_writer(path, columns) as write:
        write([_cell(line.get(name)) for name in columns] for line in lines)


def _table_lines(table: TableResults) -> list[dict[str, Any]]:
    """Return all figures of a table, one line per system and variant."""
    return [_table_line(table, results.variant, system) for results in table.variants for system in results.systems]


def _table_line(table: TableResults, variant: Variant, system: SystemResult) -> dict[str, Any]:
    known = system.published
    rules = {} if variant == Variant() else {"selection": variant.selection, "target_text": variant.target_text}
    return {
        **rules,
        "category": system.row.category,
        "system": system.row.system,
        "method": system.row.method,
        "extractor": system.row.extractor,
        **{name: system.domains[name] for name in table.domains},
        "average": system.average,
        "se_average": system.se,
        "clean_average": system.clean,
        "seeds": len(system.seeds) if system.row.is_random else None,
        "cpu_seconds": system.cpu_seconds,
        **{f"published_{name}": known.domains[name] if known else None for name in table.domains},
        "published_average": known.average if known else None,
        "published_se_average": known.se if known else None,
        "difference": system.difference,
        "within_two_se": system.is_within_two_se if system.is_authors and variant.compares else None,
        "p_competitor": system.p_competitor,
    }


def _cell(value: Any) -> Any:
    """Round to 6 significant digits rather than to decimals, since p-values may be tiny."""
    if isinstance(value, bool):
        return str(value).lower()  # as readers of CSV know it
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _write(path: Path, content: bytes) -> None:
    with whole_file(path) as temporary:
        temporary.write_bytes(content)
