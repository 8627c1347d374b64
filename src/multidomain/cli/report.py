"""The command ``multidomain report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from multidomain.cli.console import err, out
from multidomain.cli.options import MethodFile
from multidomain.errors import ConfigError


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
            help="For a model: HTML, report.html in its folder by default. For records: Markdown, a required argument; "
            "LaTeX, CSV and plots go beside it.",
        ),
    ] = None,
    method: MethodFile = None,
) -> None:
    """Make a report of a trained model, or of records: the tables of the paper, and domains without labels.

    The report of a model is one HTML page: accuracy by domain, learning curves, the effect of the adversary, a feature
    map, the confusion matrix, calibration and the most confident errors. The tables have our figures beside the
    published ones, significance tests and plots.
    """
    from multidomain.methods.registry import method_entry
    from multidomain.model.storage import is_model_folder
    from multidomain.report.model.page import write_model_report
    from multidomain.report.tables.files import write_report

    if is_model_folder(source):
        if method:
            method_entry(method)
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
    """Refuse a folder without records, and records without an output file."""
    from multidomain.experiments.recipes import STUDIES, TABLES
    from multidomain.experiments.records import new_split_seeds

    names = [f"{name}.jsonl" for name in (*TABLES, *STUDIES)]
    has_records = any((source / name).exists() for name in names)
    if not has_records and not any(new_split_seeds(source, table) for table in TABLES):
        what = f"holds neither a model (model.json) nor records ({', '.join(names)})"
        what = what if source.exists() else "does not exist"
        raise ConfigError(
            f"There is nothing to report: {source} {what}.",
            "Give the folder of a trained model, as written by 'multidomain train', or of the records of 'multidomain "
            "reproduce'.",
        )
    if output is None:
        raise ConfigError(
            f"{source} holds records, whose report needs an output file: multidomain report {source} -o results.md"
        )
