"""Methods that are sums over words, written down as arrays: what other programs need to predict as they do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class DenoisedForm:
    """A second view of a row: its projection, scaled to length 1.

    Attributes
    ----------
    columns, projection
        The columns that it reads, and a vector for each, shape (columns read, size).
    weight
        Shape (copies, size, scores).
    """

    columns: np.ndarray
    projection: np.ndarray
    weight: np.ndarray


@dataclass(frozen=True)
class LinearForm:
    """The logits of a method, before calibration. Copy 0 is for unknown domains, copy 1 + d for domain d.

    A row is multiplied by `evidence` and scaled to length 1, if there is any. Its scores are the sum of its values
    times the shared weight of each column plus the private one of the copy, and of what the denoised view adds, times
    `scale`. A single score `s` of two classes stands for -s/2 and s/2; `bias` is added last.

    Attributes
    ----------
    evidence
        Shape (columns,).
    shared
        Shape (columns, scores).
    keys, private
        Private weights, shape (places, scores), and what they are of: ``copy * columns + column``.
    scale, bias
        Shapes (copies,) and (copies, classes).
    """

    shared: np.ndarray
    keys: np.ndarray
    private: np.ndarray
    scale: np.ndarray
    bias: np.ndarray
    evidence: np.ndarray | None = None
    denoised: DenoisedForm | None = None
