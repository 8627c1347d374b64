"""The command ``multidomain methods``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from multidomain.cli.console import err, out
from multidomain.errors import EXTRA_OF


def methods_command(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the methods, those of installed packages included."""
    from multidomain.cli.render import method_facts, methods_table
    from multidomain.methods.registry import METHODS, installed_methods

    if as_json:
        print(json.dumps([method_facts(entry) for entry in installed_methods()], indent=2))
    else:
        out.print(methods_table())
    for package in sorted({package for package, _ in METHODS.missing.values()}):
        err.print(f"not listed: methods that need {package} (pip install 'multidomain[{EXTRA_OF[package]}]')")
    for name, why in METHODS.broken.items():
        err.print(f"warning: the method '{name}' of an installed package cannot be imported: {why}", style="yellow")
