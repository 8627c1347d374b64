"""What methods learn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multidomain.methods.base import Task
from multidomain.nn.sparse import SparseMatrix


@dataclass(frozen=True)
class Examples:
    """Encoded rows.

    Attributes
    ----------
    x, d
        Features and domain codes.
    y
        Class codes, where they may be seen.
    weight
        How much each row counts; None is 1. Only methods that are fitted at once look at it.
    """

    x: SparseMatrix
    d: np.ndarray
    y: np.ndarray | None = None
    weight: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.x)

    def where(self, chosen: np.ndarray) -> Examples:
        """Return the rows that a mask or row numbers choose."""
        x = SparseMatrix(self.x.matrix()[chosen], self.x.device)
        y, weight = (None if values is None else values[chosen] for values in (self.y, self.weight))
        return Examples(x, self.d[chosen], y, weight)


@dataclass(frozen=True)
class TrainingData:
    """Labelled rows, the text of all training and unlabelled rows, and the development rows.

    Attributes
    ----------
    labelled, text, dev
        Rows to learn from, all text that may be seen, rows to select on.
    classes
        Class names in the order of their codes.
    text_has_label
        Which rows of `text` are among `labelled`.
    words
        The n-gram behind each column of the features; None where that is not known.
    """

    task: Task
    classes: tuple[str, ...]
    labelled: Examples
    text: Examples
    dev: Examples
    text_has_label: np.ndarray
    words: tuple[str, ...] | None = None
