"""Options of the command line that several commands have."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

DataArgument = Annotated[str, typer.Argument(metavar="DATA", help="A corpus by name, or a file or folder of your own.")]
TextColumn = Annotated[str | None, typer.Option(help="Column with the text; found by itself if it can be.")]
LabelColumn = Annotated[str | None, typer.Option(help="Column with the class; empty cells are unlabelled rows.")]
DomainColumn = Annotated[str | None, typer.Option(help="Column with the domain.")]
SplitColumn = Annotated[str | None, typer.Option(help="Column that says train, dev, test or unlabelled.")]
Encoding = Annotated[str, typer.Option(help="Encoding of text files.")]
DropEmpty = Annotated[bool, typer.Option("--drop-empty", help="Leave rows without text out.")]


class UnknownDomain(StrEnum):
    """What to do with a domain that was not in training."""

    shared = "shared"
    error = "error"


ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a trained model.")]
Unknown = Annotated[UnknownDomain, typer.Option(help="What to do with a domain that was not in training.")]
