"""The command ``multidomain vectors``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from multidomain.cli.console import err, out
from multidomain.cli.options import READING, DataArgument, load_data, option, with_options
from multidomain.data.settings import SplitSettings
from multidomain.errors import counted
from multidomain.features.settings import SequenceSettings


@with_options(READING)
def vectors_command(
    given: Mapping[tuple[str, ...], Any],
    data: DataArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="Text, or binary if it ends in .bin.")],
    dimension: Annotated[int, typer.Option(min=1, help="Length of a vector.")] = 100,
    fold: Annotated[int | None, option(SplitSettings, "fold")] = None,
    seed: Annotated[int, option(SplitSettings, "seed")] = 0,
    min_count: Annotated[int, option(SequenceSettings, "min_count", min=1)] = 2,
) -> None:
    """Train word vectors on the training and unlabelled text of some data, never on its test rows.

    Use the same data, fold and seed for 'train': another split has other test rows.
    """
    import numpy as np

    from multidomain.cli.data_tables import split_notes, split_table
    from multidomain.data.splits import split_by
    from multidomain.features.sequences import SequenceFeaturizer
    from multidomain.features.word_vectors import train_vectors, write_vectors
    from multidomain.training.progress import progress_on

    corpus = load_data(data, given)
    split = split_by(corpus, SplitSettings.parse({"fold": fold, "seed": seed}, "split"))
    out.print(split_table(corpus, split))
    for note in split_notes(corpus, split):
        out.print(note, soft_wrap=True)
    texts = corpus.documents[np.concatenate([split.train, split.unlabelled])]
    words = list(SequenceFeaturizer.token_sequences(texts).words())
    progress = progress_on(err)
    on_epoch = partial(progress.on_prepare, "word vectors")
    try:
        trained = train_vectors(words, dimension=dimension, min_count=min_count, on_epoch=on_epoch)
    finally:
        progress.on_train_end()
    write_vectors(trained, output)
    out.print(f"{counted(len(trained.words), 'word')}, {dimension} numbers each: {output}", soft_wrap=True)
