"""The command ``multidomain predict``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from multidomain.cli.console import err, print_notes
from multidomain.cli.options import (
    Address,
    DomainColumn,
    Encoding,
    Engine,
    MethodFile,
    ModelArgument,
    PredictOn,
    TextColumn,
    Unknown,
)
from multidomain.errors import ConfigError, Note, counted, quoted


def predict_command(
    model: ModelArgument,
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="CSV, TSV, JSON lines or Parquet; or a folder or pattern of Parquet files, in quotes."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="CSV, TSV or JSON lines, or Parquet if FILE is; a folder for several files. Standard output by "
            "default.",
        ),
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
    device: PredictOn = "cpu",
    engine: Engine = None,
    address: Address = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Files at a time, one thread each; by default one for each core."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Predict all files again, and replace whatever has their names.")
    ] = False,
) -> None:
    """Copy a file, or many, with the columns 'prediction' and 'confidence' added; the order of the rows is kept.

    Of many Parquet files, those that are finished are not predicted again.
    """
    from multidomain.cli.partitions import are_partitions, is_parquet_to_parquet, predict_all, predict_parquet
    from multidomain.methods.registry import absolute
    from multidomain.model.batch_predictor import BatchPredictor

    several = are_partitions(source, output, engine)
    in_parquet = not several and is_parquet_to_parquet(source, output)
    several_only = {"engine": engine, "address": address, "workers": workers, "overwrite": overwrite or None}
    text_only = {
        "threads": threads if threads != 1 else None,
        "encoding": encoding if encoding != "utf-8" else None,
        "escape_formulas": escape_formulas or None,
    }
    if not several:
        _refuse(several_only, "is for many files", "are for many files")
    if several or in_parquet:
        _refuse(text_only, "has no effect on Parquet files", "have no effect on Parquet files")
    method = absolute(method) if method else None
    predictor = BatchPredictor(
        model.resolve(), text_column, domain_column, domain, probabilities, abstain, unknown_domain, method, device
    )
    if output is not None and in_parquet:
        predict_parquet(predictor, source, output)
        return
    if several:
        predict_all(
            predictor,
            source,
            output,
            engine=engine or "local",
            address=address,
            workers=workers,
            overwrite=overwrite,
        )
        return
    from multidomain.data.columns import Columns
    from multidomain.model.batch import predict_file, without_collection
    from multidomain.model.model import Model
    from multidomain.threads import use_threads

    use_threads(threads)
    with without_collection():
        done = predict_file(
            Model.load(model, device, method=method),
            Path(source),
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


def _refuse(given: Mapping[str, Any], of_one: str, of_several: str) -> None:
    """Refuse options that were given and would be ignored."""
    asked = [name for name, value in given.items() if value is not None]
    if asked:
        names = quoted(f"--{name.replace('_', '-')}" for name in asked)
        raise ConfigError(
            f"{names} {of_one if len(asked) == 1 else of_several}.",
            "Leave it out." if len(asked) == 1 else "Leave them out.",
        )
