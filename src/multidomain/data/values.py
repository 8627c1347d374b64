"""From raw values to a validated corpus: missing texts, labels and domains."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from multidomain.data.corpus import PARTS, Corpus, object_array
from multidomain.data.weights import checked_weights
from multidomain.errors import DataError, counted, did_you_mean

ONLY_DOMAIN = "all"
_PART_SYNONYMS = {
    "validation": "dev",
    "valid": "dev",
    "val": "dev",
    "development": "dev",
    "unlabeled": "unlabelled",
}


def corpus_from_rows(
    documents: Any,
    labels: Sequence[Any] | np.ndarray | None = None,
    domains: Sequence[Any] | np.ndarray | None = None,
    *,
    weights: Sequence[float] | np.ndarray | None = None,
    name: str = "corpus",
) -> Corpus:
    """Build a corpus from Python objects.

    Parameters
    ----------
    documents
        Texts, or a sparse matrix with one row per document.
    labels
        Class of each document; None or NaN if unlabelled. If omitted, all documents are unlabelled.
    domains
        Domain of each document. If omitted, there is a single domain, ``all``.
    weights
        How much each labelled document counts in training. If omitted, all count alike.
    name
        Name of the corpus in messages.

    Raises
    ------
    DataError
        A text is missing or not a str, a domain is missing, names differ only in case or whitespace, or a weight is
        negative or not finite.
    """
    if not sp.issparse(documents):
        documents = object_array(documents)
        check_texts(documents, lambda i: f"index {i}", hint="Remove these rows, or give them a text.")
    n = documents.shape[0]
    label_names = object_array([None] * n if labels is None else [class_name(v) for v in labels])
    domain_values = object_array([ONLY_DOMAIN] * n if domains is None else domains)
    domain_names = checked_domains(domain_values, lambda i: f"index {i}")
    check_near_names("class", label_names, lambda i: f"index {i}")
    if weights is not None:
        weights = checked_weights(weights, lambda i: f"index {i}")
    return Corpus(documents, label_names, domain_names, name=name, weights=weights)


def is_missing(value: Any) -> bool:
    """Whether a cell is empty: null, NaN or whitespace."""
    if isinstance(value, str):
        return not value or value.isspace()
    if isinstance(value, float | np.floating):
        return math.isnan(value)
    # pandas is not required here, but its columns may contain its own null values.
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def class_name(value: Any) -> str | None:
    """Return the class name in a cell, or None if the row is unlabelled.

    Whole numbers lose their decimals: many tools turn a column of 0 and 1 into 0.0 and 1.0 as soon as one
    label is missing.

    Examples
    --------
    >>> [class_name(v) for v in ("good", 1.0, 1, float("nan"), " ", "nan")]
    ['good', '1', '1', None, None, None]
    """
    # In text files NaN can only be written as a word.
    if is_missing(value) or (isinstance(value, str) and value.strip().lower() == "nan"):
        return None
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def part_name(value: Any) -> str | None:
    """Return the part named in a cell, or None if it names none."""
    form = str(value).strip().lower()
    form = _PART_SYNONYMS.get(form, form)
    return form if form in PARTS else None


def check_texts(texts: np.ndarray, where: Callable[[int], str], *, hint: str) -> None:
    """Check that every text is a non-empty str.

    Raises
    ------
    DataError
        Names the first offending rows and their number.
    """
    check = TextCheck()
    check.see(texts)
    check.report(where, hint=hint)


class TextCheck:
    """Looks at texts as they are read."""

    def __init__(self) -> None:
        self._seen = 0
        self._missing: list[int] = []
        self._no_text: tuple[int, Any] | None = None

    def see(self, texts: Sequence[Any] | np.ndarray) -> None:
        """Look at some more texts."""
        for i, text in enumerate(texts, start=self._seen):
            if is_missing(text):
                self._missing.append(i)
            elif not isinstance(text, str) and self._no_text is None:
                self._no_text = i, text
        self._seen += len(texts)

    def report(self, where: Callable[[int], str], *, hint: str) -> None:
        """Raise an error if one of the texts is missing, or is none; see `check_texts`."""
        missing = self._missing
        if missing:
            have = "has" if len(missing) == 1 else "have"
            raise DataError(
                f"{counted(len(missing), 'row')} {have} no text (null, NaN or blank): {first_rows(missing, where)}.",
                hint,
            )
        if self._no_text is not None:
            i, text = self._no_text
            raise DataError(
                f"{where(i)}: expected a text (str), got {type(text).__name__}: {str(text)[:40]!r}.",
                "Check which column or array holds the texts.",
            )


def checked_domains(values: np.ndarray, where: Callable[[int], str]) -> np.ndarray:
    """Return domain names as str; none may be missing or differ from another only in case or whitespace."""
    missing = [i for i, value in enumerate(values) if is_missing(value)]
    if missing:
        raise DataError(
            f"{counted(len(missing), 'row')} without a domain, though others have one: "
            f"{first_rows(missing, where)}. Give each row a domain."
        )
    names = object_array([domain_name(value) for value in values])
    check_near_names("domain", names, where)
    return names


def domain_name(value: Any) -> str | None:
    """Return the name of a domain as written, or None if missing."""
    if is_missing(value):
        return None
    return value if isinstance(value, str) else class_name(value)


def plain_form(name: str) -> str:
    """Return a name with case and whitespace normalised."""
    return " ".join(name.split()).casefold()


def check_near_names(kind: str, names: np.ndarray, where: Callable[[int], str]) -> None:
    """Check that no two names differ only in case or whitespace: one is nearly always a typo."""
    first_use: dict[str, int] = {}
    for i, name in enumerate(names):
        if name is not None and name not in first_use:
            first_use[name] = i
    by_form: dict[str, str] = {}
    for name, i in first_use.items():
        other = by_form.setdefault(plain_form(name), name)
        if other != name:
            raise DataError(
                f"The {kind} names '{other}' ({where(first_use[other])}) and '{name}' ({where(i)}) differ "
                f"only by case or blanks. Spell them alike if they are one {kind}, or rename one."
            )


def first_rows(rows: Sequence[int], where: Callable[[int], str], limit: int = 5) -> str:
    """Return ``reviews.csv, row 3; reviews.csv, row 9 and 7 more``."""
    shown = "; ".join(where(i) for i in rows[:limit])
    return shown + (f" and {len(rows) - limit:,} more" if len(rows) > limit else "")


def check_domain_names(asked: Sequence[str], corpus: Corpus) -> None:
    """Check that all requested domains are in the corpus."""
    known = set(corpus.domain_names)
    for name in asked:
        if name not in known:
            raise DataError(f"'{corpus.name}' has no domain '{name}'.{did_you_mean(name, corpus.domain_names)}")
