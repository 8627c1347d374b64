"""The command of reports: parse, call, print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from multidomain.errors import ConfigError
from multidomain.experiments.recipes import TABLES
from multidomain.experiments.records import new_split_seeds, records_file
from multidomain.model.model import is_model_folder
from multidomain.report.model.page import write_model_report
from multidomain.report.tables.files import write_report

out = Console(highlight=False, markup=False)
err = Console(stderr=True, highlight=False, markup=False)


def report_command(
    source: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder of a trained model, or of the records of 'reproduce'.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Of a model: HTML, report.html in its folder by default. Of records: Markdown, which must be named; "
            "LaTeX, CSV and plots go beside it.",
        ),
    ] = None,
) -> None:
    """Make a report of a trained model, or the tables of the paper from records.

    The report of a model is one HTML page: accuracy by domain, learning curves, what the adversary did, the features in
    the plane, confusion, calibration and the surest mistakes. The tables have our figures beside the published ones,
    tests of significance and plots.
    """
    if is_model_folder(source):
        out.print(str(write_model_report(source, output)), soft_wrap=True)
        return
    _check_records(source, output)
    assert output is not None
    written = write_report(source, output)
    if written.plots_missing:
        err.print(f"note: no plots. {written.plots_missing}", soft_wrap=True)
    for path in written.files:
        out.print(str(path), soft_wrap=True)


def _check_records(source: Path, output: Path | None) -> None:
    """Refuse what is no folder of records, and records without a name for their report."""
    names = [f"{table}.jsonl" for table in TABLES]
    if not any(records_file(source, table).exists() or new_split_seeds(source, table) for table in TABLES):
        what = f"holds neither a model (model.json) nor records ({', '.join(names)})"
        what = what if source.exists() else "does not exist"
        raise ConfigError(
            f"There is nothing to report: {source} {what}. Name the folder of a trained model, which 'multidomain "
            "train' makes, or of the records of 'multidomain reproduce'."
        )
    if output is None:
        raise ConfigError(
            f"{source} holds records, whose report must be named, as in: multidomain report {source} -o results.md"
        )
