"""From a corpus and a split to encoded training data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_matrix

from multidomain.data.corpus import Corpus
from multidomain.data.splits import Split
from multidomain.errors import ConfigError, did_you_mean
from multidomain.features.base import Documents, Featurizer
from multidomain.features.sparse_rows import selected
from multidomain.methods.data import Examples, TrainingData
from multidomain.methods.task import Task
from multidomain.training.settings import ClassWeight


class EncodedRows:
    """Rows of a corpus as a model reads them, each encoded once.

    Parameters
    ----------
    features
        Fitted.
    documents
        All documents of the corpus.
    rows
        Numbers of the rows to encode.
    """

    def __init__(self, features: Featurizer, documents: Documents, rows: np.ndarray, n_rows: int):
        _, first = np.unique(rows, return_index=True)
        rows = rows[np.sort(first)]  # in the order in which they will be asked for: then they need not be copied
        self._matrix = features.transform(documents[rows].analysed_for(type(features)))
        self._place = np.full(n_rows, -1)
        self._place[rows] = np.arange(len(rows))

    @property
    def n_bytes(self) -> int:
        """Return the size of all rows."""
        return self._matrix.data.nbytes + self._matrix.indices.nbytes + self._matrix.indptr.nbytes

    def __getitem__(self, rows: np.ndarray) -> csr_matrix:
        """Return some of the rows, by their numbers in the corpus."""
        return selected(self._matrix, self._place[rows])


def training_data(
    corpus: Corpus, split: Split, features: Featurizer, encoded: EncodedRows, class_weight: ClassWeight = None
) -> TrainingData:
    """Return the encoded training and dev rows of a corpus; test rows are never used.

    Only domains with training text take part; they are coded in the order of the corpus. Labelled training rows have
    weights if the corpus has some, or if classes have.
    """
    has_label = corpus.labelled
    text = np.concatenate([split.train, split.unlabelled])
    train = split.train[has_label[split.train]]
    present = set(corpus.domains[text])
    domains = tuple(name for name in corpus.domain_names if name in present)
    classes = tuple(sorted(set(corpus.labels[train])))
    code_of_domain = {name: code for code, name in enumerate(domains)}
    code_of_class = {name: code for code, name in enumerate(classes)}
    labelled_domains = {code_of_domain[name] for name in corpus.domains[train]}

    def examples(rows: np.ndarray, with_labels: bool) -> Examples:
        d = np.array([code_of_domain[name] for name in corpus.domains[rows]], dtype=np.int64)
        if not with_labels:
            return Examples(encoded[rows], d)
        return Examples(encoded[rows], d, np.array([code_of_class[c] for c in corpus.labels[rows]], dtype=np.int64))

    labelled = examples(train, with_labels=True)
    sample_weight = None if corpus.weights is None else corpus.weights[train]
    _check_classes(class_weight, corpus)
    assert labelled.y is not None
    labelled = replace(labelled, weight=row_weights(sample_weight, labelled.y, classes, class_weight))

    # A domain without training labels is a target: selection must not see its labels, unless a table that says so
    # asks for it (decision 5).
    selecting = present if split.selection == "oracle" else {domains[code] for code in labelled_domains}
    known = has_label[split.dev] & np.array([name in selecting for name in corpus.domains[split.dev]], dtype=bool)
    return TrainingData(
        task=Task(features.n_inputs, len(classes), domains, tuple(sorted(labelled_domains))),
        classes=classes,
        labelled=labelled,
        text=examples(text, with_labels=False),
        dev=examples(split.dev[known], with_labels=True),
        text_has_label=np.isin(text, train),
        words=features.vocabulary,
    )


def row_weights(
    sample_weight: np.ndarray | None, y: np.ndarray, classes: Sequence[str], class_weight: ClassWeight
) -> np.ndarray | None:
    r"""Return the weight of each labelled row: its own times that of its class; None if there are neither.

    ``balanced`` gives all classes the same total weight and keeps that of all rows: with the weights :math:`\omega_i`
    of rows and `K` classes,

    .. math:: \omega_c = \sum_i \omega_i \Big/ \Big(K \sum_{i : y_i = c} \omega_i\Big)

    Examples
    --------
    >>> row_weights(None, np.array([0, 0, 0, 1]), ["bad", "good"], "balanced").round(3)
    array([0.667, 0.667, 0.667, 2.   ])
    """
    if class_weight is None:
        return sample_weight
    own = np.ones(len(y)) if sample_weight is None else sample_weight
    if class_weight == "balanced":
        of_class = own.sum() / (len(classes) * np.bincount(y, own, minlength=len(classes)))
    else:
        of_class = np.array([class_weight.get(name, 1.0) for name in classes])
    return own * of_class[y]


def _check_classes(class_weight: ClassWeight, corpus: Corpus) -> None:
    """Refuse weights of classes that the corpus does not have."""
    for name in class_weight if isinstance(class_weight, dict) else ():
        if name not in corpus.class_names:
            raise ConfigError(
                f"class_weight names '{name}', which is no class of '{corpus.name}'."
                f"{did_you_mean(name, corpus.class_names)}"
            )
