"""Training data of methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from multidomain.features.sparse_rows import selected
from multidomain.methods.task import Task


@dataclass(frozen=True)
class Examples:
    """Encoded rows.

    Attributes
    ----------
    x, d
        Features and domain codes.
    y
        Class codes, unless hidden.
    weight
        Weight of each row in the loss; None means 1.
    """

    x: csr_matrix
    d: np.ndarray
    y: np.ndarray | None = None
    weight: np.ndarray | None = None

    def __len__(self) -> int:
        return self.x.shape[0]

    def select(self, rows: np.ndarray) -> Examples:
        """Return the rows selected by a mask or row numbers."""
        y, weight = (None if values is None else values[rows] for values in (self.y, self.weight))
        return Examples(selected(self.x, rows), self.d[rows], y, weight)


@dataclass(frozen=True)
class TrainingData:
    """Labelled rows, the text of all training and unlabelled rows, and the dev set.

    Attributes
    ----------
    labelled, text, dev
        Rows to learn from, all text available for training, rows for model selection.
    classes
        Class names, in the order of their codes.
    text_has_label
        Which rows of `text` are among `labelled`.
    words
        The n-gram of each feature column; None if unknown.
    """

    task: Task
    classes: tuple[str, ...]
    labelled: Examples
    text: Examples
    dev: Examples
    text_has_label: np.ndarray
    words: Sequence[str] | None = None

    @property
    def text_without_labels(self) -> Examples:
        """Return the text of the domains that have no labels at all."""
        return self.text.select(~np.isin(self.text.d, self.task.labelled))
