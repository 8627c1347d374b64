"""The command ``multidomain predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from multidomain.cli.console import err, print_notes
from multidomain.cli.options import DomainColumn, Encoding, MethodFile, ModelArgument, TextColumn, Unknown
from multidomain.errors import Note, counted


def predict_command(
    model: ModelArgument,
    source: Annotated[Path, typer.Argument(metavar="FILE", help="CSV, TSV, JSON lines or Parquet.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="CSV, TSV or JSON lines; standard output by default."),
    ] = None,
    domain: Annotated[str | None, typer.Option(help="Domain of all rows, in place of a domain column.")] = None,
    text_column: TextColumn = None,
    domain_column: DomainColumn = None,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Add a column for each class.")] = False,
    abstain: Annotated[
        float,
        typer.Option(
            metavar="CONFIDENCE",
            min=0,
            max=1,
            help="Leave the prediction empty where the confidence is lower; the report of a model shows what it gains.",
            show_default=False,
        ),
    ] = 0.0,
    escape_formulas: Annotated[
        bool,
        typer.Option(
            "--escape-formulas",
            help="Put an apostrophe before cells of CSV or TSV that begin with = + - @, tab or carriage return and are "
            "no numbers: a spreadsheet would run them (OWASP: CSV injection). Off by default: it changes the data.",
        ),
    ] = False,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads; predictions do not depend on them.")] = 1,
    encoding: Encoding = "utf-8",
    unknown_domain: Unknown = "shared",
    method: MethodFile = None,
) -> None:
    """Copy a file with the columns 'prediction' and 'confidence' added; the order of the rows is kept."""
    from multidomain.data.columns import Columns
    from multidomain.model.batch import predict_file, without_collection
    from multidomain.model.model import Model
    from multidomain.threads import use_threads

    use_threads(threads)
    with without_collection():
        done = predict_file(
            Model.load(model, method=method),
            source,
            output,
            Columns(text=text_column, domain=domain_column),
            domain=domain,
            probabilities=probabilities,
            abstain=abstain,
            unknown_domain=unknown_domain,
            encoding=encoding,
            escape_formulas=escape_formulas,
        )
    print_notes(done.notes)
    if done.without_text:
        print_notes([Note(f"{counted(done.without_text, 'row')} without text got no prediction")])
    if abstain:
        share = done.abstained / max(1, done.rows - done.without_text)
        below = f"{counted(done.abstained, 'row')} ({share:.1%}) below a confidence of {abstain:g} got no prediction"
        print_notes([Note(below)])
    err.print(f"{counted(done.rows, 'row')} written to {output or 'standard output'}", soft_wrap=True)
