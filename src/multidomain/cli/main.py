"""The command line: parse, call, print."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from multidomain.cli import render as shown
from multidomain.cli.bench import app as bench
from multidomain.cli.explain import explain_command
from multidomain.cli.options import (
    DataArgument,
    DomainColumn,
    DropEmpty,
    Encoding,
    LabelColumn,
    ModelArgument,
    SplitColumn,
    TextColumn,
    Unknown,
    UnknownDomain,
)
from multidomain.cli.report import report_command
from multidomain.cli.reproduce import reproduce_command
from multidomain.cli.serve import serve_command
from multidomain.cli.train import init_command, train_command
from multidomain.cli.vectors import vectors_command
from multidomain.data.checks import summarise
from multidomain.data.columns import Columns
from multidomain.data.named.registry import CORPORA, load_corpus
from multidomain.errors import ConfigError, MultidomainError, MultidomainWarning, counted, did_you_mean
from multidomain.evaluation.evaluate import evaluate as evaluate_rows
from multidomain.experiments.recipes import rows_of
from multidomain.methods.registry import METHODS
from multidomain.model.batch import predict_file
from multidomain.model.model import Model, is_model_folder
from multidomain.runs.run import test_rows, unseen

app = typer.Typer(
    help="Multi-domain text classification with Multinomial Adversarial Networks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
out = Console(highlight=False, markup=False)  # names of domains and columns may hold brackets
err = Console(stderr=True, highlight=False, markup=False)


def corpora() -> None:
    """List the corpora known by name."""
    out.print(shown.corpora_table())


def fetch(
    names: Annotated[list[str], typer.Argument(help="Corpora to get; see 'multidomain corpora'.")],
) -> None:
    """Download corpora into the cache, or find them where MULTIDOMAIN_DATA says."""
    unknown = [name for name in names if name not in CORPORA]
    if unknown:
        raise ConfigError(f"There is no corpus '{unknown[0]}'.{did_you_mean(unknown[0], CORPORA)}")
    for name in names:
        folder = CORPORA[name].fetch(lambda file, size: err.print(f"{file.path}: {size:,} bytes", end="\r"))
        out.print(f"{name}: {folder or 'nothing to fetch'}", soft_wrap=True)


def methods(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the methods."""
    if not as_json:
        out.print(shown.methods_table())
        return
    entries = [
        {
            "name": entry.name,
            "summary": entry.summary,
            "paper": entry.paper,
            "rows": rows_of(entry.name),
            "labels": entry.labels,
            "uses_unlabelled_text": entry.uses_unlabelled_text,
            "words": entry.words or "not needed",
            "settings": entry.settings({}).model_dump(mode="json"),
        }
        for entry in METHODS.values()
    ]
    print(json.dumps(entries, indent=2))


def evaluate(
    model: ModelArgument,
    data: DataArgument,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    domain_column: DomainColumn = None,
    split_column: SplitColumn = None,
    encoding: Encoding = "utf-8",
    drop_empty: DropEmpty = False,
    unknown_domain: Unknown = UnknownDomain.shared,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Score a model on labelled data, domain by domain.

    Of the data that the model was trained on, the test rows are scored. Of other data the test part is scored, if it
    has one, and otherwise all labelled rows; rows whose text was seen in training are left out.
    """
    trained = Model.load(model)
    columns = Columns(text_column, label_column, domain_column, split_column)
    corpus = load_corpus(data, columns, encoding=encoding, drop_empty=drop_empty)
    rows, which = test_rows(model, corpus), "the test rows that were held out in training"
    if rows is None:
        rows, which = np.arange(len(corpus)), "the labelled rows"
        if corpus.parts is not None and (corpus.parts == "test").any():
            rows, which = np.flatnonzero(corpus.parts == "test"), "the test part"
        new = unseen(model, corpus, rows)
        if len(new) < len(rows):
            err.print(
                f"note: {counted(len(rows) - len(new), 'row')} left out, because training has seen the text",
                soft_wrap=True,
            )
        rows = new
    scores = evaluate_rows(trained, corpus, rows, unknown_domain.value)
    if as_json:
        print(json.dumps(scores.as_json(), indent=2))
    else:
        out.print(shown.evaluation_table(scores, f"{model.name} on {which} of {corpus.name}"))


def predict(
    model: ModelArgument,
    source: Annotated[Path, typer.Argument(metavar="FILE", help="CSV, TSV, JSON lines or Parquet.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="CSV, TSV or JSON lines; standard output if not given."),
    ] = None,
    domain: Annotated[str | None, typer.Option(help="Domain of all rows, in place of a domain column.")] = None,
    text_column: TextColumn = None,
    domain_column: DomainColumn = None,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Add a column for each class.")] = False,
    encoding: Encoding = "utf-8",
    unknown_domain: Unknown = UnknownDomain.shared,
) -> None:
    """Copy a file with the columns 'prediction' and 'confidence' added; every row stays in its place."""
    done = predict_file(
        Model.load(model),
        source,
        output,
        Columns(text=text_column, domain=domain_column),
        domain=domain,
        probabilities=probabilities,
        unknown_domain=unknown_domain.value,
        encoding=encoding,
    )
    if done.without_text:
        err.print(f"warning: {counted(done.without_text, 'row')} without text got no prediction", style="yellow")
    err.print(f"{counted(done.rows, 'row')} written to {output or 'standard output'}", soft_wrap=True)


def inspect(
    what: Annotated[str, typer.Argument(help="A model folder, a corpus by name, or a file or folder of data.")],
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    domain_column: DomainColumn = None,
    split_column: SplitColumn = None,
    encoding: Encoding = "utf-8",
    drop_empty: DropEmpty = False,
) -> None:
    """Show what is in a model or in a corpus."""
    if what not in CORPORA and is_model_folder(Path(what)):
        out.print(shown.model_table(Model.load(what), what))
        return
    columns = Columns(text_column, label_column, domain_column, split_column)
    corpus = load_corpus(what, columns, encoding=encoding, drop_empty=drop_empty)
    out.print(shown.summary_table(summarise(corpus)))


_COMMANDS: dict[str, Callable[..., None]] = {  # in the order in which they are needed
    "inspect": inspect,
    "init": init_command,
    "train": train_command,
    "evaluate": evaluate,
    "report": report_command,
    "explain": explain_command,
    "predict": predict,
    "serve": serve_command,
    "methods": methods,
    "corpora": corpora,
    "fetch": fetch,
    "vectors": vectors_command,
    "reproduce": reproduce_command,
}
for name, command in _COMMANDS.items():
    app.command(name)(command)
app.add_typer(bench, name="bench")


def _show_warnings_once() -> None:
    """Print our warnings as one line each, the same one only once; others are for developers."""
    said = set()

    def show(message: Warning | str, category: type[Warning], *_: object) -> None:
        if issubclass(category, MultidomainWarning) and str(message) not in said:
            said.add(str(message))
            err.print(f"warning: {message}", style="yellow", soft_wrap=True)

    warnings.simplefilter("always", MultidomainWarning)
    warnings.showwarning = show  # type: ignore[assignment]


def main() -> None:
    """Run the command line; a fault of the input or of a file ends with its message and exit code 2."""
    _show_warnings_once()
    try:
        app()
    except (MultidomainError, OSError) as error:
        err.print(f"error: {error}", style="red", soft_wrap=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
