"""The command ``multidomain inspect``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from multidomain.cli.console import out
from multidomain.cli.options import READING, MethodFile, load_data, with_options


@with_options(READING)
def inspect_command(
    given: Mapping[tuple[str, ...], Any],
    what: Annotated[str, typer.Argument(help="A model folder, a corpus by name, or a file or folder of data.")],
    method: MethodFile = None,
) -> None:
    """Show what is in a model or in a corpus."""
    from multidomain.cli.render import model_table, summary_table
    from multidomain.data.checks import summarise
    from multidomain.data.named.registry import CORPORA
    from multidomain.model.model import Model
    from multidomain.model.storage import is_model_folder

    if what not in CORPORA and is_model_folder(Path(what)):
        out.print(model_table(Model.load(what, method=method), what))
        return
    corpus = load_data(what, given)
    out.print(summary_table(summarise(corpus)))
