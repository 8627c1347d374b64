"""The command ``multidomain init``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from multidomain.cli.console import out
from multidomain.cli.options import option
from multidomain.errors import ConfigError
from multidomain.files import whole_file
from multidomain.methods.registry import RECOMMENDED
from multidomain.runs.config import TrainConfig, template


def init_command(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write.")] = Path("multidomain.toml"),
    data: Annotated[str, option(TrainConfig, "data")] = "reviews.csv",
    output: Annotated[str, option(TrainConfig, "output", "--output", "-o")] = "runs/reviews",
    method: Annotated[str, typer.Option(help="Method whose settings to show.")] = RECOMMENDED,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
) -> None:
    """Write a commented settings file for 'multidomain train --config'."""
    if path.exists() and not overwrite:
        raise ConfigError(f"{path} exists already.", "Choose another name, or replace it with {overwrite}.")
    text = template(data, output, method)
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    out.print(f"{path}: settings of '{method}', all at their defaults", soft_wrap=True)
    out.print(f"next: multidomain train --config {path} --dry-run", soft_wrap=True)
