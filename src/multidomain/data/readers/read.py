"""Read a corpus from a table, from svmlight files or from a folder of FDU-MTL files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from multidomain.data.columns import Columns
from multidomain.data.corpus import PARTS, Corpus, Provenance, object_array
from multidomain.data.readers.fdu import is_fdu_folder, read_fdu_folder
from multidomain.data.readers.svmlight import SVMLIGHT_SUFFIXES, read_svmlight, svmlight_files
from multidomain.data.readers.tables import TABLE_SUFFIXES, Table, open_table
from multidomain.data.texts import Texts, TextsBuilder
from multidomain.data.values import (
    ONLY_DOMAIN,
    TextCheck,
    check_near_names,
    checked_domains,
    class_name,
    is_missing,
    part_name,
)
from multidomain.errors import ConfigError, DataError, quoted
from multidomain.stages import stage


def read_corpus(
    path: str | Path,
    columns: Columns | None = None,
    *,
    encoding: str = "utf-8",
    drop_empty: bool = False,
    part: str | None = None,
) -> Corpus:
    """Read a corpus from disk.

    Parameters
    ----------
    path
        A table (CSV, TSV, JSON lines, Parquet), an svmlight file or a folder of them (``<domain>.svmlight``,
        ``<domain>_train.svmlight``), or a folder of FDU-MTL files (``<domain>.task.train``).
    columns
        Columns of a table; those left None are auto-detected.
    encoding
        Text encoding of a table.
    drop_empty
        Drop rows of a table that have no text, instead of raising an error.
    part
        Part that all rows of the file belong to, ``train``, ``dev``, ``test`` or ``unlabelled``.

    Returns
    -------
    Corpus

    Raises
    ------
    DataError
        The data cannot be used; the message names the file and row.
    """
    path = Path(path)
    if part is not None and part not in PARTS:
        raise ConfigError(f"A file cannot be the part '{part}'. Valid: {quoted(PARTS)}.")
    if path.is_dir():
        corpus = _read_folder(path)
    elif path.suffix.lower() in SVMLIGHT_SUFFIXES:
        corpus = read_svmlight([path])
    else:
        table = open_table(path, encoding)
        return _read_table(table, columns or Columns(), drop_empty=drop_empty, part=part)
    return corpus if part is None else _as_part(corpus, part)


def _read_folder(path: Path) -> Corpus:
    if is_fdu_folder(path):
        return read_fdu_folder(path)
    files = svmlight_files(path)
    if files:
        return read_svmlight(files, name=path.name)
    raise DataError(
        f"The folder '{path}' holds no corpus. Expected svmlight files ({quoted(SVMLIGHT_SUFFIXES)}, one a "
        f"domain) or FDU-MTL files ('<domain>.task.train'). A table ({quoted(TABLE_SUFFIXES)}) is given by "
        "its own path."
    )


def _read_table(table: Table, wanted: Columns, *, drop_empty: bool, part: str | None) -> Corpus:
    if part not in (None, "train"):
        wanted = replace(wanted, weight=None)  # only training rows are weighted
    columns = table.resolve(wanted)
    values: dict[str, list[Any]] = {field: [] for field in asdict(columns) if field != "text"}
    rows, texts, check = [np.empty(0, dtype=np.int64)], TextsBuilder(), TextCheck()
    shared: dict[str, str] = {}  # a label or domain is held once, however many rows have it
    for chunk in stage(f"reading {table.path.name}", table.chunks(), table.estimated_chunks()):
        keep = range(len(chunk))
        cells = chunk.values[columns.text or ""]
        if drop_empty:
            keep = [i for i in keep if not is_missing(cells[i])]  # type: ignore[assignment]
            cells = [cells[i] for i in keep]
        check.see(cells)
        texts.extend([cell if isinstance(cell, str) else "" for cell in cells])
        rows.append(chunk.first_row + np.array(keep, dtype=np.int64))
        for field, collected in values.items():
            column = getattr(columns, field)
            if column is not None:
                cells = chunk.values[column]
                kept = [cells[i] for i in keep]
                collected += [shared.setdefault(cell, cell) if isinstance(cell, str) else cell for cell in kept]
    provenance = Provenance.of_file(table.path.name, np.concatenate(rows))
    if not len(provenance.row):
        raise DataError(f"{table.path.name}: no row has a text in the column '{columns.text}'.")
    hint = f"Fill the column '{columns.text}', or drop such rows ({{drop_empty}})."
    check.report(provenance.where, hint=hint)
    return _checked_corpus(texts.finish(), provenance, table, columns, values, part)


def _checked_corpus(
    texts: np.ndarray | Texts,
    provenance: Provenance,
    table: Table,
    columns: Columns,
    values: dict[str, list[Any]],
    part: str | None,
) -> Corpus:
    n = len(texts)
    labels = object_array([class_name(v) for v in values["label"]] if columns.label else [None] * n)
    check_near_names("class", labels, provenance.where)
    domains = checked_domains(object_array(values["domain"] if columns.domain else [ONLY_DOMAIN] * n), provenance.where)
    parts = _checked_parts(values["split"], columns.split, part, provenance.where) if columns.split else None
    if parts is None and part is not None:
        parts = np.full(n, part, dtype=object)
    found = {field: name for field, name in asdict(columns).items() if name is not None}
    weights = _weights(values["weight"], labels, parts) if columns.weight else None
    return Corpus(
        texts,
        labels,
        domains,
        parts=parts,
        provenance=provenance,
        name=table.path.stem,
        columns=found,
        weights=weights,
    )


def _weights(values: list[Any], labels: np.ndarray, parts: np.ndarray | None) -> np.ndarray:
    """Return the weights of rows, which rows that nothing is learnt from need not have."""
    learnt = np.array([label is not None for label in labels], dtype=bool)
    if parts is not None:
        learnt &= parts == "train"
    return object_array([1.0 if is_missing(v) and not counts else v for v, counts in zip(values, learnt, strict=True)])


def _checked_parts(values: list[Any], column: str, part: str | None, where: Callable[[int], str]) -> np.ndarray:
    parts = [part_name(value) for value in values]
    for i, (found, value) in enumerate(zip(parts, values, strict=True)):
        if found is None:
            raise DataError(
                f"{where(i)}: the column '{column}' says which part a row belongs to and holds {value!r}. "
                f"Valid: {quoted(PARTS)}."
            )
        if part is not None and found != part:
            raise DataError(
                f"{where(i)} is '{found}' by its column '{column}', but the file was given as '{part}'. "
                "Give the file without a part, or correct the column."
            )
    return object_array(parts)


def _as_part(corpus: Corpus, part: str) -> Corpus:
    return Corpus(
        corpus.documents,
        corpus.labels,
        corpus.domains,
        parts=np.full(len(corpus), part, dtype=object),
        provenance=corpus.provenance,
        name=corpus.name,
    )
