"""The command ``multidomain vectors``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from multidomain.cli.options import (
    DataArgument,
    DomainColumn,
    DropEmpty,
    Encoding,
    LabelColumn,
    SplitColumn,
    TextColumn,
)
from multidomain.cli.render import split_notes, split_table
from multidomain.data.columns import Columns
from multidomain.data.named.registry import load_corpus
from multidomain.errors import counted
from multidomain.features.sequences import SequenceFeaturizer
from multidomain.features.word_vectors import train_vectors, write_vectors
from multidomain.runs.run import SplitSettings
from multidomain.training.progress import progress_on

out = Console(highlight=False, markup=False)
err = Console(stderr=True, highlight=False, markup=False)


def vectors_command(
    data: DataArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="Text, or binary if it ends in .bin.")],
    dimension: Annotated[int, typer.Option(min=1, help="Length of a vector.")] = 100,
    fold: Annotated[int | None, typer.Option(help="Run of the 5-fold protocol, 0 to 4, as for 'train'.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the split, as for 'train'.")] = 0,
    min_count: Annotated[int, typer.Option(min=1, help="Leave rarer words out.")] = 2,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    domain_column: DomainColumn = None,
    split_column: SplitColumn = None,
    encoding: Encoding = "utf-8",
    drop_empty: DropEmpty = False,
) -> None:
    """Train word vectors on the training and unlabelled text of some data, never on its test rows.

    Use the same data, fold and seed for 'train': another split has other test rows.
    """
    columns = Columns(text_column, label_column, domain_column, split_column)
    corpus = load_corpus(data, columns, encoding=encoding, drop_empty=drop_empty)
    split = SplitSettings.parse({"fold": fold, "seed": seed}, "split").split(corpus)
    out.print(split_table(corpus, split))
    for note in split_notes(corpus, split):
        out.print(note, soft_wrap=True)
    texts = corpus.documents[np.concatenate([split.train, split.unlabelled])]
    words = list(SequenceFeaturizer().words(texts))
    progress = progress_on(err)
    on_epoch = partial(progress.on_prepare, "word vectors")
    try:
        trained = train_vectors(words, dimension=dimension, min_count=min_count, on_epoch=on_epoch)
    finally:
        progress.on_train_end()
    write_vectors(trained, output)
    out.print(f"{counted(len(trained.words), 'word')}, {dimension} numbers each: {output}", soft_wrap=True)
