"""Checks that a corpus can be trained on, and a summary of its contents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multidomain.data.corpus import Corpus
from multidomain.data.splits import Split
from multidomain.data.values import first_rows
from multidomain.errors import DataError, Note, quoted


@dataclass(frozen=True)
class DomainSummary:
    """What one domain holds.

    Parameters
    ----------
    rows, labelled
        Number of documents, and of those with a label.
    per_class
        Number of documents by class, for all classes of the corpus.
    repeated_texts
        Duplicates: documents whose normalised text occurs earlier in the domain.
    conflicting_texts
        Normalised texts of the domain that carry different labels.
    """

    rows: int
    labelled: int
    per_class: dict[str, int]
    repeated_texts: int
    conflicting_texts: int


@dataclass(frozen=True)
class CorpusSummary:
    """What a corpus holds, by domain.

    Parameters
    ----------
    name
        Name of the corpus.
    rows
        Number of documents.
    class_names
        All classes.
    domains
        Summary of each domain, in the order of first appearance.
    """

    name: str
    rows: int
    class_names: tuple[str, ...]
    domains: dict[str, DomainSummary]


def summarise(corpus: Corpus) -> CorpusSummary:
    """Count rows, labels, duplicates and conflicting labels of each domain."""
    keys = corpus.text_keys()
    domains = {}
    by_domain = np.argsort(corpus.domain_codes, kind="stable")
    sizes = np.bincount(corpus.domain_codes, minlength=len(corpus.domain_names))
    for domain, rows in zip(corpus.domain_names, np.split(by_domain, np.cumsum(sizes)[:-1]), strict=True):
        labels = corpus.labels[rows]
        domains[domain] = DomainSummary(
            rows=len(rows),
            labelled=int(corpus.labelled[rows].sum()),
            per_class={name: int((labels == name).sum()) for name in corpus.class_names},
            repeated_texts=len(rows) - len(np.unique(keys[rows])),
            conflicting_texts=_conflicts(keys[rows], labels),
        )
    return CorpusSummary(corpus.name, len(corpus), corpus.class_names, domains)


def _conflicts(keys: np.ndarray, labels: np.ndarray) -> int:
    pairs = {(key, label) for key, label in zip(keys.tolist(), labels, strict=True) if label is not None}
    _, labels_per_text = np.unique(np.array([key for key, _ in pairs], dtype=np.uint64), return_counts=True)
    return int((labels_per_text > 1).sum())


def check_trainable(corpus: Corpus, split: Split) -> list[Note]:
    """Check that a classifier can be trained on the split; return notes on domains that cannot help.

    Raises
    ------
    DataError
        No training row has a label, all have the same, or a class is in dev or test only.
    """
    train = split.train[corpus.labelled[split.train]]
    if len(train) == 0:
        raise DataError(
            f"No row to train on has a label ('{corpus.name}', {len(split.train):,} training rows). Expected "
            "labels in at least one domain.",
            "Check the label column ({label_column=NAME}) and the split.",
        )
    known = set(corpus.labels[train])
    _check_held_out_classes(corpus, split, known)
    if len(known) == 1:
        raise DataError(
            f"All labelled training rows have the class '{next(iter(known))}'. At least two classes are "
            "needed to learn a difference.",
            "Check the label column ({label_column=NAME}) and the split.",
        )
    return _notes_on_domains(corpus, split, train)


def _check_held_out_classes(corpus: Corpus, split: Split, known: set[str]) -> None:
    for part, rows in (("dev", split.dev), ("test", split.test)):
        held_out = rows[corpus.labelled[rows]]
        unseen = [i for i in held_out if corpus.labels[i] not in known]
        if unseen:
            label = corpus.labels[unseen[0]]
            with_label = [int(i) for i in unseen if corpus.labels[i] == label]
            raise DataError(
                f"The class '{label}' is in the {part} part and in no labelled training row "
                f"({first_rows(with_label, corpus.where)}). Classes in training: {quoted(sorted(known))}.",
                "Move some of its rows to the training part, correct the label, or remove the rows.",
            )


def _notes_on_domains(corpus: Corpus, split: Split, train: np.ndarray) -> list[Note]:
    text = np.concatenate([split.train, split.unlabelled])
    seen = set(corpus.domains[text])
    notes = []
    if len(seen) == 1:
        notes.append(
            Note(
                f"All training text is of one domain, '{next(iter(seen))}': there is nothing to adapt, and an "
                "ordinary classifier is trained.",
                "Check the domain column ({domain_column=NAME}) if you expected more.",
                kind="one-domain",
            )
        )
    classes: dict[str, set[str]] = {}
    for domain, label in zip(corpus.domains[train], corpus.labels[train], strict=True):
        classes.setdefault(domain, set()).add(label)
    for domain, names in classes.items():
        if len(names) == 1:
            notes.append(
                Note(
                    f"All labelled training rows of the domain '{domain}' have the class '{next(iter(names))}': "
                    "its private features can learn only that.",
                    "Add rows of other classes, or leave the domain unlabelled.",
                    kind="one-class",
                )
            )
    return notes
