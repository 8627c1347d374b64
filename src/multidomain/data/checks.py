"""Checks that a corpus can be trained on, and a summary of its contents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multidomain.data.corpus import Corpus
from multidomain.data.splits import Split
from multidomain.data.values import first_rows
from multidomain.errors import DataError, Note, quoted

_NOTED_ONE_BY_ONE = 8  # domains


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
    classes, n_domains, n_classes = corpus.class_names, len(corpus.domain_names), len(corpus.class_names)
    code_of_class = {name: code for code, name in enumerate(classes)}
    domain, labelled = corpus.domain_codes, np.flatnonzero(corpus.labelled)
    label = np.array([code_of_class[name] for name in corpus.labels[labelled]], dtype=np.int64)
    _, text = np.unique(corpus.text_keys(), return_inverse=True)
    text_and_domain = text * n_domains + domain
    labels_of_texts = np.unique(text_and_domain[labelled] * n_classes + label) // max(n_classes, 1)
    labelled_texts, n_labels = np.unique(labels_of_texts, return_counts=True)

    def counts(domain_of_each: np.ndarray) -> np.ndarray:
        return np.bincount(domain_of_each, minlength=n_domains)

    rows, conflicting = counts(domain), counts(labelled_texts[n_labels > 1] % n_domains)
    repeated = rows - counts(np.unique(text_and_domain) % n_domains)
    per_class = np.bincount(domain[labelled] * n_classes + label, minlength=n_domains * n_classes)
    columns = (rows, counts(domain[labelled]), per_class.reshape(n_domains, n_classes), repeated, conflicting)
    summaries = {
        name: DomainSummary(n, with_label, dict(zip(classes, of_classes, strict=True)), again, in_conflict)
        for name, n, with_label, of_classes, again, in_conflict in zip(
            corpus.domain_names, *(column.tolist() for column in columns), strict=True
        )
    }
    return CorpusSummary(corpus.name, len(corpus), classes, summaries)


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
    return notes + _notes_on_one_class({domain: names.pop() for domain, names in classes.items() if len(names) == 1})


def _notes_on_one_class(class_of: dict[str, str]) -> list[Note]:
    """Return a note for each domain with a single class, or one for all if there are many."""
    if len(class_of) > _NOTED_ONE_BY_ONE:
        return [
            Note(
                f"In each of {len(class_of):,} domains all labelled training rows have the same class "
                f"({quoted(class_of)}): their private features can learn only that.",
                "Add rows of other classes, or leave the domains unlabelled.",
                kind="one-class",
            )
        ]
    return [
        Note(
            f"All labelled training rows of the domain '{domain}' have the class '{name}': its private features can "
            "learn only that.",
            "Add rows of other classes, or leave the domain unlabelled.",
            kind="one-class",
        )
        for domain, name in class_of.items()
    ]
