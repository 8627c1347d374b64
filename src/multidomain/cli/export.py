"""The command ``multidomain export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from multidomain.cli.console import out
from multidomain.cli.options import MethodFile, ModelArgument
from multidomain.errors import ConfigError


def export_command(
    model: ModelArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE.onnx", help="File to write.")],
    method: MethodFile = None,
) -> None:
    """Write a linear model as ONNX, for programs without multidomain.

    The graph reads tokens and domains, and answers with labels and probabilities. The rules of the tokens are written
    beside it, as JSON.
    """
    from multidomain.model.export import export
    from multidomain.model.model import Model

    if file.suffix != ".onnx":
        raise ConfigError(f"Expected a file that ends in .onnx, got '{file}'.")
    rules = export(Model.load(model, method=method), file)
    out.print(f"{file}\n{rules}", soft_wrap=True)
