"""What methods learn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multidomain.methods.base import Task
from multidomain.nn.rows import SparseRows


@dataclass(frozen=True)
class Examples:
    """Encoded rows: features, domain codes and, where they may be seen, class codes."""

    x: SparseRows
    d: np.ndarray
    y: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True)
class TrainingData:
    """Labelled rows, the text of all training and unlabelled rows, and the development rows.

    Attributes
    ----------
    labelled, text, dev
        Rows to learn from, all text that may be seen, rows to select on.
    classes
        Class names in the order of their codes.
    words
        The n-gram behind each column of the features; None where that is not known.
    """

    task: Task
    classes: tuple[str, ...]
    labelled: Examples
    text: Examples
    dev: Examples
    words: tuple[str, ...] | None = None
