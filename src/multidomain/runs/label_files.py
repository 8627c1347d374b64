"""The files of `label_next`: rows to choose from, rows to label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from multidomain.data.columns import Columns
from multidomain.data.corpus import Corpus
from multidomain.data.labels_file import add_labels
from multidomain.data.readers.read import read_corpus
from multidomain.data.values import ONLY_DOMAIN
from multidomain.errors import DataError
from multidomain.model.model import Model
from multidomain.runs.config import read_config
from multidomain.runs.folder import CONFIG, RunFolder
from multidomain.runs.label_next import ToLabel

COLUMNS = ("text", "label", "domain", "prediction", "confidence", "row")
"""Of the table to fill in; `row` is the row number in the file that was read."""


def read_candidates(
    model: Model,
    source: Path,
    columns: Columns,
    *,
    encoding: str = "utf-8",
    domain: str | None = None,
    earlier: Sequence[str] = (),
) -> Corpus:
    """Read the rows to choose from; those without text are dropped.

    Parameters
    ----------
    domain
        Domain of all rows, if the file has no domain column.
    earlier
        Files of labels that were filled in before.
    """
    corpus = read_corpus(source, columns, encoding=encoding, drop_empty=True)
    if not corpus.is_text:
        raise DataError(f"{source.name} holds vectors; rows to label are read as texts.", "Give a table of texts.")
    if "domain" in corpus.columns or corpus.domain_names != (ONLY_DOMAIN,):
        pass
    elif domain is not None:
        corpus = replace(corpus, domains=np.full(len(corpus), domain, dtype=object))
    elif model.domains != (ONLY_DOMAIN,):
        raise DataError(
            f"{source.name} has no column that looks like the domain, and the model knows several.",
            "Name the column with {domain_column=NAME}, or the domain of all rows with {domain=DOMAIN}.",
        )
    classes = [str(name) for name in model.classes]
    return add_labels(corpus, earlier, columns, encoding=encoding, classes=classes) if earlier else corpus


def table_rows(found: ToLabel, corpus: Corpus) -> Iterator[list[Any]]:
    """Yield the rows of the table to fill in, as `COLUMNS` names them."""
    for i, prediction, confidence in zip(found.rows, found.predictions, found.confidence, strict=True):
        row = int(corpus.provenance.row[i]) if corpus.provenance is not None else int(i) + 1
        yield [corpus.documents[i], None, corpus.domains[i], prediction, round(float(confidence), 6), row]


def labels_by_domain(folder: Path) -> dict[str, int] | None:
    """Return how many labels each domain of a run's data had; None if the folder does not tell."""
    summary = (RunFolder(folder).metrics() or {}).get("summary")
    return summary and {name: domain["labelled"] for name, domain in summary["domains"].items()}


def earlier_labels(folder: Path) -> list[str]:
    """Return the files of labels that a run was trained with."""
    files = read_config(folder / CONFIG).get("reading", {}).get("labels", []) if (folder / CONFIG).exists() else []
    return [files] if isinstance(files, str) else list(files)
