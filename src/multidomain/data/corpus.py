"""The corpus: documents, each with a domain and an optional label."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from multidomain.data.dedup import canonical_rows, document_keys
from multidomain.data.texts import Texts, joined_texts
from multidomain.data.weights import check_some_weight, checked_weights
from multidomain.errors import DataError, quoted

PARTS = ("train", "dev", "test", "unlabelled")


@dataclass(frozen=True, eq=False)
class Provenance:
    """The file and row each document came from, for messages.

    Parameters
    ----------
    files
        Names of the files.
    file
        For each document, an index into `files`.
    row
        For each document, its row as a spreadsheet or editor shows it.
    """

    files: tuple[str, ...]
    file: np.ndarray
    row: np.ndarray

    @classmethod
    def of_file(cls, name: str, rows: Sequence[int] | np.ndarray) -> Provenance:
        """Return the provenance of documents from a single file."""
        row = np.asarray(rows, dtype=np.int64)
        return cls((name,), np.zeros(len(row), dtype=np.int32), row)

    @classmethod
    def concat(cls, provenance: Sequence[Provenance]) -> Provenance:
        """Return the provenance of several corpora, concatenated."""
        starts = np.cumsum([0] + [len(p.files) for p in provenance[:-1]])
        return cls(
            tuple(name for p in provenance for name in p.files),
            np.concatenate([p.file + start for p, start in zip(provenance, starts, strict=True)]).astype(np.int32),
            np.concatenate([p.row for p in provenance]),
        )

    def select(self, rows: np.ndarray) -> Provenance:
        """Return the provenance of some documents."""
        return Provenance(self.files, self.file[rows], self.row[rows])

    def where(self, i: int) -> str:
        """Return ``reviews.csv, row 17``."""
        return f"{self.files[self.file[i]]}, row {self.row[i]}"


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents of several domains.

    Parameters
    ----------
    documents
        Texts (object array of str, or `Texts` if there are many), or feature vectors (sparse rows, float32).
    labels
        The class name of each document, or None if unlabelled.
    domains
        The domain name of each document.
    parts
        ``train``, ``dev``, ``test`` or ``unlabelled`` as given in the files; None if not given. An
        ``unlabelled`` row may carry a label, for scoring only.
    folds
        Folds as given in the files, -1 where a row has none.
    groups
        Rows of the same source document share a group and are never split up; None if a row has no group.
    provenance
        File and row of each document, for messages.
    name
        Name of the corpus in messages and records.
    columns
        The table columns of text, label, domain and part, for messages.
    weights
        How much each labelled row counts in training; None: all alike. A row of weight 0 counts as unlabelled.
    train_only
        Mask of rows that splits never hold out, because they were picked for labelling; None: no row.

    Examples
    --------
    >>> corpus = Corpus(["fine", "poor", "so-so"], ["good", "bad", None], ["books", "pans", "pans"])
    >>> corpus.domain_names, corpus.class_names, corpus.labelled.tolist()
    (('books', 'pans'), ('bad', 'good'), [True, True, False])
    """

    documents: np.ndarray | Texts | sp.csr_matrix
    labels: np.ndarray
    domains: np.ndarray
    parts: np.ndarray | None = None
    folds: np.ndarray | None = None
    groups: np.ndarray | None = None
    provenance: Provenance | None = None
    name: str = "corpus"
    columns: Mapping[str, str] = field(default_factory=dict)
    weights: np.ndarray | None = None
    train_only: np.ndarray | None = None

    def __post_init__(self) -> None:
        if sp.issparse(self.documents):
            self._set("documents", sp.csr_matrix(self.documents, dtype=np.float32))
        elif not isinstance(self.documents, Texts):
            self._set("documents", object_array(self.documents))
        for name in ("labels", "domains", "parts", "groups"):
            if getattr(self, name) is not None:
                self._set(name, object_array(getattr(self, name)))
        if self.folds is not None:
            self._set("folds", np.asarray(self.folds, dtype=np.int64))
        self._check_lengths()
        self._check_values()
        if self.weights is not None:
            self._set_weights()

    def _set(self, field: str, value: Any) -> None:
        object.__setattr__(self, field, value)

    def _set_weights(self) -> None:
        weights = checked_weights(self.weights, self.where)
        check_some_weight(weights, np.array([label is not None for label in self.labels], dtype=bool), self.name)
        labels = self.labels.copy()
        scored = np.zeros(len(self), dtype=bool) if self.parts is None else np.isin(self.parts, ("dev", "test"))
        labels[(weights == 0) & ~scored] = None
        self._set("weights", weights)
        self._set("labels", labels)

    def _check_lengths(self) -> None:
        expected = len(self)
        for name in ("labels", "domains", "parts", "folds", "groups", "weights", "train_only"):
            value = getattr(self, name)
            if value is not None and len(value) != expected:
                raise DataError(
                    f"The corpus '{self.name}' has {expected:,} documents but {len(value):,} {name}. "
                    f"Give one of each for every document."
                )

    def _check_values(self) -> None:
        if self.is_text and not isinstance(self.documents, Texts):
            self._check_all("documents", lambda text: isinstance(text, str), "a str")
        self._check_all("labels", lambda label: label is None or isinstance(label, str), "a str or None")
        self._check_all("domains", lambda domain: isinstance(domain, str), "a str")
        if self.parts is not None:
            self._check_all("parts", lambda part: part in PARTS, f"one of {quoted(PARTS)}")

    def _check_all(self, field: str, is_valid: Any, expected: str) -> None:
        for i, value in enumerate(getattr(self, field)):
            if not is_valid(value):
                raise DataError(
                    f"{self.where(i)}: {field} must hold {expected} for each row, not {value!r} "
                    f"({type(value).__name__})."
                )

    def __len__(self) -> int:
        return int(self.documents.shape[0])

    @property
    def is_text(self) -> bool:
        """Whether the documents are texts; otherwise they are sparse vectors."""
        return not sp.issparse(self.documents)

    @cached_property
    def domain_names(self) -> tuple[str, ...]:
        """The domains, in order of first appearance."""
        return tuple(dict.fromkeys(self.domains))

    @cached_property
    def domain_codes(self) -> np.ndarray:
        """For each row, the index of its domain in `domain_names`."""
        codes = {name: code for code, name in enumerate(self.domain_names)}
        return np.array([codes[name] for name in self.domains], dtype=np.int64)

    def in_domains(self, names: Collection[str]) -> np.ndarray:
        """Return the mask of the rows of some domains."""
        asked = set(names)
        return np.array([name in asked for name in self.domain_names], dtype=bool)[self.domain_codes]

    @cached_property
    def class_names(self) -> tuple[str, ...]:
        """The classes, sorted."""
        return tuple(sorted(set(self.labels[self.labelled])))

    @cached_property
    def labelled(self) -> np.ndarray:
        """Mask of the labelled rows."""
        return np.array([label is not None for label in self.labels], dtype=bool)

    def select(self, rows: np.ndarray) -> Corpus:
        """Return the selected rows, given by index or mask."""

        def of(array: Any) -> Any:
            return None if array is None else array[rows]

        return replace(
            self,
            documents=self.documents[rows],
            labels=self.labels[rows],
            domains=self.domains[rows],
            parts=of(self.parts),
            folds=of(self.folds),
            groups=of(self.groups),
            weights=of(self.weights),
            train_only=of(self.train_only),
            provenance=None if self.provenance is None else self.provenance.select(rows),
        )

    def thinned(self, rows: int) -> Corpus:
        """Return a corpus with the first rows of each domain, part, fold and class, for a quick trial."""
        none = np.full(len(self), None)
        parts, folds = (none if given is None else given for given in (self.parts, self.folds))
        seen: Counter[tuple[Any, ...]] = Counter()
        kept = []
        for i, kind in enumerate(zip(self.domains, parts, folds, self.labels, strict=True)):
            seen[kind] += 1
            if seen[kind] <= rows:
                kept.append(i)
        return self.select(np.array(kept))

    def where(self, i: int) -> str:
        """Return where row `i` came from, ``reviews.csv, row 17``; without provenance, its 1-based number."""
        return self.provenance.where(i) if self.provenance is not None else f"row {int(i) + 1}"

    def text_keys(self) -> np.ndarray:
        """Return a key for each document, equal where the normalised text (or the vector) is equal."""
        return self._text_keys

    @cached_property
    def _text_keys(self) -> np.ndarray:
        return document_keys(self.documents)

    def content_hash(self) -> str:
        """Return a SHA-256 over texts, labels, domains, parts, weights and `train_only`, equal on every machine."""
        digest = hashlib.sha256()
        if self.is_text:
            _hash_strings(digest, self.documents)
        else:
            rows = canonical_rows(self.documents)
            digest.update(np.array(rows.shape, dtype="<i8").tobytes())
            for array, dtype in ((rows.indptr, "<i8"), (rows.indices, "<i8"), (rows.data, "<f4")):
                digest.update(array.astype(dtype).tobytes())
        for column in (self.labels, self.domains, self.parts):
            _hash_strings(digest, [None] * len(self) if column is None else column)
        if self.weights is not None:
            digest.update(self.weights.astype("<f8").tobytes())
        if self.train_only is not None:
            digest.update(np.flatnonzero(self.train_only).astype("<i8").tobytes())
        return digest.hexdigest()

    @classmethod
    def concat(cls, corpora: Sequence[Corpus], name: str | None = None) -> Corpus:
        """Concatenate corpora, for example one per file.

        Rows with the same group name count as one document, whichever corpus they come from.
        """
        if not corpora:
            raise DataError("There is no corpus to join: give at least one.")
        if len(corpora) == 1:
            return corpora[0]
        _check_joinable(corpora)
        stack: Any = joined_texts if corpora[0].is_text else _stack_rows
        provenance = [c.provenance for c in corpora if c.provenance is not None]
        return cls(
            documents=stack([c.documents for c in corpora]),
            labels=np.concatenate([c.labels for c in corpora]),
            domains=np.concatenate([c.domains for c in corpora]),
            parts=_join(corpora, "parts", None),
            folds=_join(corpora, "folds", -1),
            groups=_join(corpora, "groups", None),
            weights=_join(corpora, "weights", 1.0),
            train_only=_join(corpora, "train_only", False),
            provenance=Provenance.concat(provenance) if len(provenance) == len(corpora) else None,
            name=name or corpora[0].name,
            columns=corpora[0].columns,
        )


def object_array(values: Any) -> np.ndarray:
    """Return a one-dimensional object array, even of strings, which numpy would store as fixed-width."""
    if isinstance(values, np.ndarray) and values.dtype == object and values.ndim == 1:
        return values
    values = list(values)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _stack_rows(matrices: Sequence[sp.csr_matrix]) -> sp.csr_matrix:
    return sp.vstack(matrices, format="csr")


def _check_joinable(corpora: Sequence[Corpus]) -> None:
    first = corpora[0]
    for other in corpora[1:]:
        if other.is_text != first.is_text:
            kinds = {True: "texts", False: "vectors"}
            raise DataError(
                f"'{first.name}' holds {kinds[first.is_text]} and '{other.name}' {kinds[other.is_text]}; "
                "they cannot be one corpus."
            )
        if not first.is_text and other.documents.shape[1] != first.documents.shape[1]:
            raise DataError(
                f"'{first.name}' has {first.documents.shape[1]:,} columns and '{other.name}' "
                f"{other.documents.shape[1]:,}; vectors of one corpus need the same columns."
            )
        if (other.parts is None) != (first.parts is None):
            given, missing = (first, other) if other.parts is None else (other, first)
            raise DataError(
                f"'{given.name}' says which rows are train, dev or test and '{missing.name}' does not. "
                "Give a part for both or for neither."
            )


def _join(corpora: Sequence[Corpus], field: str, fill: Any) -> np.ndarray | None:
    columns = [getattr(c, field) for c in corpora]
    if all(column is None for column in columns):
        return None
    filled = [
        np.full(len(c), fill, dtype=object if fill is None else type(fill)) if column is None else column
        for c, column in zip(corpora, columns, strict=True)
    ]
    return np.concatenate(filled)


def _hash_strings(digest: Any, values: Any) -> None:
    # Each value is preceded by its length, so that ("ab", "c") and ("a", "bc") differ; -1 is None.
    for value in values:
        content = b"" if value is None else value.encode("utf-8", "surrogatepass")
        length = -1 if value is None else len(content)
        digest.update(length.to_bytes(8, "little", signed=True) + content)
