"""The command ``multidomain label-next``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from multidomain.cli.console import out, print_notes
from multidomain.cli.options import DomainColumn, Encoding, LabelColumn, MethodFile, ModelArgument, TextColumn
from multidomain.errors import Note, counted

if TYPE_CHECKING:
    from multidomain.runs.label_next import ToLabel


def label_next_command(
    model: ModelArgument,
    source: Annotated[Path, typer.Argument(metavar="FILE", help="CSV, TSV, JSON lines or Parquet.")],
    number: Annotated[int, typer.Option("-n", "--number", min=1, help="How many rows to choose.")] = 30,
    output: Annotated[Path, typer.Option("--output", "-o", help="CSV, TSV or JSON lines.")] = Path("to-label.csv"),
    domain: Annotated[
        str | None,
        typer.Option(help="Choose from this domain only. Of a file without a domain column: that of all rows."),
    ] = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    domain_column: DomainColumn = None,
    encoding: Encoding = "utf-8",
    method: MethodFile = None,
) -> None:
    """Choose the rows of a file whose labels would help a model most; fill them in and train again."""
    from multidomain.data.columns import Columns
    from multidomain.data.writing import check_writable, table_writer
    from multidomain.model.model import Model
    from multidomain.runs.label_files import COLUMNS, earlier_labels, labels_by_domain, read_candidates, table_rows
    from multidomain.runs.label_next import label_next

    check_writable(output)
    trained = Model.load(model, method=method)
    earlier = earlier_labels(model)
    columns = Columns(text=text_column, label=label_column, domain=domain_column)
    corpus = read_candidates(trained, source, columns, encoding=encoding, domain=domain, earlier=earlier)
    found = label_next(trained, corpus, number, labels=labels_by_domain(model), domain=domain)
    with table_writer(output, COLUMNS, encoding) as write:
        write(table_rows(found, corpus))
    print_notes(found.notes)
    if len(found.rows) < number:
        print_notes([Note(f"only {counted(len(found.rows), 'row')} without a label to choose from")])
    out.print(division_table(found))
    out.print(f"{counted(len(found.rows), 'row')} written to {output}: fill in the column 'label'", soft_wrap=True)
    out.print(f"next: {train_again(model, source, [*earlier, str(output)])}", soft_wrap=True)


def division_table(found: ToLabel) -> Table:
    """How the rows are divided between domains, and why."""
    title = "divided by expected gain: sum of 1 - margin over the rows without a label, / (1 + labels / 100)"
    table = Table("domain", title=title, title_justify="left")
    for heading in ("labels", "unlabelled rows", "mean confidence", "expected gain", "to label"):
        table.add_column(heading, justify="right")
    for share in found.domains:
        table.add_row(
            share.domain,
            "some" if share.labels is None else f"{share.labels:,}" if share.labels else "none",
            f"{share.candidates:,}",
            f"{100 * share.confidence:.1f} %",
            f"{100 * share.gain:.1f} %",
            f"{share.chosen:,}",
        )
    return table


def train_again(folder: Path, source: Path, labels: Sequence[str]) -> str:
    """The command that trains as before, with the new labels."""
    from multidomain.runs.folder import CONFIG

    data = ["--config", str(folder / CONFIG)] if (folder / CONFIG).exists() else [str(source)]
    given = [part for file in labels for part in ("--labels", file)]
    return shlex.join(["multidomain", "train", *data, *given, "-o", str(_next_folder(folder))])


def _next_folder(folder: Path) -> Path:
    """Return ``runs/reviews-2`` after ``runs/reviews``, and ``runs/reviews-3`` after that."""
    stem, number = re.fullmatch(r"(.*?)(?:-(\d+))?", folder.name).groups()  # type: ignore[union-attr]
    return folder.with_name(f"{stem}-{int(number or 1) + 1}")
