"""All files of a report: Markdown, and beside it LaTeX, CSV and a plot for each table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from multidomain.errors import ConfigError
from multidomain.files import whole_file
from multidomain.report.tables.development import development_section
from multidomain.report.tables.latex import latex_table
from multidomain.report.tables.markdown import markdown_report
from multidomain.report.tables.plots import plot_table
from multidomain.report.tables.records import Variant
from multidomain.report.tables.results import load_results
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
        the other tables; a table with no complete row has none.
    """
    if output.suffix != ".md" or output.is_dir():
        raise ConfigError(
            f"A report is a Markdown file with others beside it: give a name such as docs/results.md, not {output}."
        )
    results = load_results(results_folder)
    files, plots, plots_missing = [output], {}, ""
    for table in results.tables:
        if not table.variants:
            continue
        latex, csv, svg = (output.with_name(f"{output.stem}_{table.name}.{kind}") for kind in ("tex", "csv", "svg"))
        _write(latex, latex_table(table).encode())
        _write(csv, csv_table(table).encode())
        files += [latex, csv]
        try:
            _write(svg, plot_table(table))
        except ConfigError as error:
            plots_missing = str(error)
        else:
            files.append(svg)
            plots[table.name] = svg.name
    _write(output, markdown_report(results, plots, plots_missing, development_section(results_folder)).encode())
    return Written(tuple(files), plots_missing)


def csv_table(table: TableResults) -> str:
    """Return all figures of a table as CSV, one line per system and variant; unknown values are empty."""
    lines = [_csv_line(table, results.variant, system) for results in table.variants for system in results.systems]
    rounded = [{name: _rounded(value) for name, value in line.items()} for line in lines]
    return pl.DataFrame(rounded, infer_schema_length=None).write_csv()


def _csv_line(table: TableResults, variant: Variant, system: SystemResult) -> dict[str, Any]:
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


def _rounded(value: Any) -> Any:
    """Round to 6 significant digits rather than to decimals, since p-values may be tiny."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _write(path: Path, content: bytes) -> None:
    with whole_file(path) as temporary:
        temporary.write_bytes(content)
