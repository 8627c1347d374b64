"""The command ``multidomain inspect``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from multidomain.cli.console import out
from multidomain.cli.options import READING, MethodFile, load_data, with_options
from multidomain.errors import ConfigError


@with_options(READING)
def inspect_command(
    given: Mapping[tuple[str, ...], Any],
    what: Annotated[str, typer.Argument(help="A model folder, a corpus by name, or a file or folder of data.")],
    method: MethodFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what a corpus holds as JSON.")] = False,
) -> None:
    """Show what is in a model or in a corpus."""
    from multidomain.cli.data_tables import summary_table
    from multidomain.data.checks import summarise
    from multidomain.data.named.registry import CORPORA

    if what not in CORPORA and Path(what).is_dir() and _show_model(what, method, as_json):
        return
    summary = summarise(load_data(what, given))
    if as_json:
        print(json.dumps(asdict(summary), indent=2))
        return
    out.print(summary_table(summary))


def _show_model(folder: str, method: str | None, as_json: bool) -> bool:
    """Show the model in a folder, if there is one; what it takes to load one is not imported before."""
    from multidomain.cli.render import model_table
    from multidomain.model.model import Model
    from multidomain.model.storage import MANIFEST, is_model_folder

    if not is_model_folder(Path(folder)):
        return False
    if as_json:
        raise ConfigError(f"--json shows a corpus, and {folder} is a model.", f"Read {MANIFEST} in that folder.")
    out.print(model_table(Model.load(folder, method=method), folder))
    return True
