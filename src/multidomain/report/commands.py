"""The command of reports: parse, call, print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from multidomain.report.results_files import write_report

out = Console(highlight=False, markup=False)
err = Console(stderr=True, highlight=False, markup=False)


def report_command(
    source: Annotated[Path, typer.Argument(metavar="RESULTS", help="Folder of the records of 'reproduce'.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Markdown; LaTeX, CSV and plots go beside it.")
    ],
) -> None:
    """Make tables from records: our figures beside the published ones, tests of significance, plots."""
    written = write_report(source, output)
    if written.plots_missing:
        err.print(f"note: no plots. {written.plots_missing}", soft_wrap=True)
    for path in written.files:
        out.print(str(path), soft_wrap=True)
