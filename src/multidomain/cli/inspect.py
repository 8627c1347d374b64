"""The command ``multidomain inspect``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from multidomain.cli.console import out
from multidomain.cli.options import (
    DomainColumn,
    DropEmpty,
    Encoding,
    LabelColumn,
    MethodFile,
    SplitColumn,
    TextColumn,
)


def inspect_command(
    what: Annotated[str, typer.Argument(help="A model folder, a corpus by name, or a file or folder of data.")],
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    domain_column: DomainColumn = None,
    split_column: SplitColumn = None,
    encoding: Encoding = "utf-8",
    drop_empty: DropEmpty = False,
    method: MethodFile = None,
) -> None:
    """Show what is in a model or in a corpus."""
    from multidomain.cli.render import model_table, summary_table
    from multidomain.data.checks import summarise
    from multidomain.data.columns import Columns
    from multidomain.data.named.registry import CORPORA, load_corpus
    from multidomain.model.model import Model
    from multidomain.model.storage import is_model_folder

    if what not in CORPORA and is_model_folder(Path(what)):
        out.print(model_table(Model.load(what, method=method), what))
        return
    columns = Columns(text_column, label_column, domain_column, split_column)
    corpus = load_corpus(what, columns, encoding=encoding, drop_empty=drop_empty)
    out.print(summary_table(summarise(corpus)))
