"""From a corpus and a split to what the training loop reads."""

from __future__ import annotations

import numpy as np
import torch

from multidomain.data.corpus import Corpus
from multidomain.data.splits import Split
from multidomain.features.concat import Featurizer
from multidomain.methods.base import Task
from multidomain.methods.data import Examples, TrainingData
from multidomain.nn.sparse import SparseMatrix


def training_data(corpus: Corpus, split: Split, features: Featurizer, device: torch.device) -> TrainingData:
    """Encode the training and development rows of a corpus; test rows are not looked at.

    `features` must be fitted. Only domains with training text take part; they are coded in the order of
    the corpus.
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
        x = SparseMatrix(features.transform(corpus.documents[rows]), device)
        d = np.array([code_of_domain[name] for name in corpus.domains[rows]], dtype=np.int64)
        if not with_labels:
            return Examples(x, d)
        return Examples(x, d, np.array([code_of_class[c] for c in corpus.labels[rows]], dtype=np.int64))

    # A domain without training labels is a target: selection must not see its labels, unless a table that says so
    # asks for it (decision 5).
    selecting = present if split.selection == "oracle" else {domains[code] for code in labelled_domains}
    known = has_label[split.dev] & np.array([name in selecting for name in corpus.domains[split.dev]], dtype=bool)
    return TrainingData(
        task=Task(features.n_inputs, len(classes), domains, tuple(sorted(labelled_domains))),
        classes=classes,
        labelled=examples(train, with_labels=True),
        text=examples(text, with_labels=False),
        dev=examples(split.dev[known], with_labels=True),
        text_has_label=np.isin(text, train),
        words=None if features.vocabulary is None else tuple(features.vocabulary),
    )
