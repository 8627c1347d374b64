"""Labels from tables of their own, filled into a corpus."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from multidomain.data.columns import Columns
from multidomain.data.corpus import Corpus
from multidomain.data.readers.read import read_corpus
from multidomain.data.readers.tables import open_table
from multidomain.data.values import check_near_names
from multidomain.errors import DataError, did_you_mean, quoted


def add_labels(
    corpus: Corpus,
    files: Sequence[str | Path],
    columns: Columns | None = None,
    *,
    encoding: str = "utf-8",
    drop_empty: bool = False,
    classes: Collection[str] = (),
) -> Corpus:
    """Fill the labels of some tables into a corpus.

    A label goes to the rows of the same text and domain that have none. A text that the corpus does not hold is added
    as a new row. None of these rows is held out for dev or test: they were picked, so scores on them would mislead.

    Parameters
    ----------
    files
        Tables of text, label and domain. Rows without a label are ignored.
    columns
        As given for the corpus; used where a table has them, and otherwise auto-detected.
    classes
        Valid labels; by default those of the corpus, if it has any.

    Raises
    ------
    DataError
        A label contradicts another one of the same text and domain, or is not a class of the corpus.
    """
    if not corpus.is_text:
        raise DataError(
            f"'{corpus.name}' holds vectors; labels are matched by their texts.", "Leave out {labels=FILE}."
        )
    read = [_labelled_rows(Path(file), corpus, columns or Columns(), encoding, drop_empty) for file in files]
    given = Corpus.concat(read)
    _check_names(corpus, given, classes or corpus.class_names)
    return _filled(corpus, given)


def _labelled_rows(path: Path, corpus: Corpus, wanted: Columns, encoding: str, drop_empty: bool) -> Corpus:
    names = open_table(path, encoding).columns
    own = Columns(*(name if name in names else None for name in (wanted.text, wanted.label, wanted.domain)))
    table = read_corpus(path, own, encoding=encoding, drop_empty=drop_empty)
    for field in ("label", "domain"):
        if field not in table.columns and (field == "label" or len(corpus.domain_names) > 1):
            raise DataError(
                f"{path.name} has no column that looks like the {field}. Its columns: {quoted(names)}.",
                f"Call one of them '{field}'.",
            )
    if not table.labelled.any():
        column = table.columns["label"]
        raise DataError(f"{path.name}: no row has a label.", f"Fill in the column '{column}', or leave the file out.")
    if "domain" not in table.columns:
        table = replace(table, domains=np.full(len(table), corpus.domain_names[0], dtype=object))
    return replace(table.select(table.labelled), parts=None)


def _check_names(corpus: Corpus, given: Corpus, classes: Collection[str]) -> None:
    """Check that labels and domains are spelt as in the corpus."""

    def where(i: int) -> str:
        return corpus.where(i) if i < len(corpus) else given.where(i - len(corpus))

    check_near_names("class", np.concatenate([corpus.labels, given.labels]), where)
    check_near_names("domain", np.concatenate([corpus.domains, given.domains]), where)
    for i, label in enumerate(given.labels):
        if classes and label not in classes:
            raise DataError(
                f"{given.where(i)}: '{label}' is not a class of '{corpus.name}'.{did_you_mean(label, classes)}",
                "Correct it; or, if the class is new, label a row of the data with it first.",
            )


def _filled(corpus: Corpus, given: Corpus) -> Corpus:
    label_of = _by_text(given)
    labels = corpus.labels.copy()
    found: set[tuple[int, str]] = set()
    rows = []
    keys = corpus.text_keys()
    for i in np.flatnonzero(np.isin(keys, given.text_keys())).tolist():
        text = (int(keys[i]), corpus.domains[i])
        if text not in label_of:
            continue
        found.add(text)
        if labels[i] is None:
            labels[i] = given.labels[label_of[text]]
            rows.append(i)
        elif labels[i] != given.labels[label_of[text]]:
            raise _contradiction(given, label_of[text], labels[i], corpus.where(i))
    filled = _with_labels(corpus, labels, np.array(rows, dtype=np.int64))
    new = given.select(np.array([i for text, i in label_of.items() if text not in found], dtype=np.int64))
    if not len(new):
        return filled
    parts = None if corpus.parts is None else np.full(len(new), "train", dtype=object)
    return Corpus.concat([filled, replace(new, parts=parts, train_only=np.ones(len(new), dtype=bool))])


def _by_text(given: Corpus) -> dict[tuple[int, str], int]:
    """Return the first row of each text and domain."""
    first: dict[tuple[int, str], int] = {}
    for i, text in enumerate(zip(given.text_keys().tolist(), given.domains, strict=True)):
        j = first.setdefault(text, i)
        if given.labels[j] != given.labels[i]:
            raise _contradiction(given, i, given.labels[j], given.where(j))
    return first


def _contradiction(given: Corpus, i: int, other: str, where: str) -> DataError:
    return DataError(
        f"{given.where(i)}: a text of the domain '{given.domains[i]}' is labelled '{given.labels[i]}' here and "
        f"'{other}' in {where}.",
        "Correct one of the two labels, or empty the one in the file of labels.",
    )


def _with_labels(corpus: Corpus, labels: np.ndarray, rows: np.ndarray) -> Corpus:
    """Return the corpus with new labels, whose rows are training rows from now on."""
    train_only = np.zeros(len(corpus), dtype=bool) if corpus.train_only is None else corpus.train_only.copy()
    train_only[rows] = True
    parts, weights = (None if values is None else values.copy() for values in (corpus.parts, corpus.weights))
    if parts is not None:
        parts[rows] = np.where(parts[rows] == "unlabelled", "train", parts[rows])
    if weights is not None:
        weights[rows] = np.where(weights[rows] == 0, 1.0, weights[rows])  # 0 would hide the label
    return replace(corpus, labels=labels, parts=parts, weights=weights, train_only=train_only)
