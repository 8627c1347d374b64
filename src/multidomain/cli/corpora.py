"""The commands ``multidomain corpora`` and ``multidomain fetch``."""

from __future__ import annotations

from typing import Annotated

import typer

from multidomain.cli.console import err, out


def corpora_command() -> None:
    """List the corpora known by name."""
    from multidomain.cli.render import corpora_table

    out.print(corpora_table())


def fetch_command(
    names: Annotated[
        list[str], typer.Argument(help="Corpora (see 'multidomain corpora') or encoders (minilm, mpnet).")
    ],
) -> None:
    """Download corpora and encoders into the cache, or find them where MULTIDOMAIN_DATA says."""
    from multidomain.data.encoders.named import ENCODERS, fetch_encoder
    from multidomain.data.named.registry import CORPORA

    found = [CORPORA.find(name, also=tuple(ENCODERS)) for name in names if name not in ENCODERS]
    for name in names:
        if name in ENCODERS:
            out.print(f"{name}: {fetch_encoder(name)}", soft_wrap=True)
    for corpus in found:
        folder = corpus.fetch(lambda file, size: err.print(f"{file.path}: {size:,} bytes", end="\r"))
        out.print(f"{corpus.name}: {folder or 'nothing to fetch'}", soft_wrap=True)
