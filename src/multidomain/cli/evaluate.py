"""The command ``multidomain evaluate``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from multidomain.cli.console import err, out, print_notes
from multidomain.cli.options import (
    DataArgument,
    DomainColumn,
    DropEmpty,
    Encoding,
    LabelColumn,
    MethodFile,
    ModelArgument,
    SplitColumn,
    TextColumn,
    Unknown,
)
from multidomain.errors import counted


def evaluate_command(
    model: ModelArgument,
    data: DataArgument,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    domain_column: DomainColumn = None,
    split_column: SplitColumn = None,
    encoding: Encoding = "utf-8",
    drop_empty: DropEmpty = False,
    unknown_domain: Unknown = "shared",
    method: MethodFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Score a model on labelled data, domain by domain.

    Of the data that the model was trained on, the test set is scored. Of other data the test part is scored, if it has
    one, and otherwise all labelled rows; rows whose text was seen in training are dropped.
    """
    from multidomain.cli.render import evaluation_table
    from multidomain.data.columns import Columns
    from multidomain.data.named.registry import load_corpus
    from multidomain.evaluation.evaluate import evaluate_corpus
    from multidomain.model.model import Model
    from multidomain.runs.folder import RunFolder

    trained = Model.load(model, method=method)
    columns = Columns(text_column, label_column, domain_column, split_column)
    corpus = load_corpus(data, columns, encoding=encoding, drop_empty=drop_empty)
    chosen = RunFolder(model).rows_to_score(corpus)
    if chosen.seen_in_training:
        dropped = counted(chosen.seen_in_training, "row")
        err.print(f"note: {dropped} dropped, because training has seen the text", soft_wrap=True)
    scores, notes = evaluate_corpus(trained, corpus, chosen.rows, unknown_domain)
    print_notes(notes)
    if as_json:
        print(json.dumps(scores.as_json(), indent=2))
    else:
        out.print(evaluation_table(scores, f"{model.name} on {chosen.description} of {corpus.name}"))
