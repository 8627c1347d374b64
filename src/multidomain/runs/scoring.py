"""Train on a split and predict its held-out rows: the only path to a scored model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from multidomain.data.corpus import Corpus
from multidomain.data.splits import Split
from multidomain.training.settings import RunSettings
from multidomain.training.train import Trained, train_model


@dataclass(frozen=True, eq=False)
class Scored:
    """A trained model, and its predictions for held-out rows.

    Attributes
    ----------
    dev, test
        Class probabilities of the dev and test rows, shape (rows, classes).
    """

    trained: Trained
    dev: np.ndarray
    test: np.ndarray


def train_and_score(corpus: Corpus, split: Split, settings: RunSettings, **options: Any) -> Scored:
    """Train on a split, and predict its dev and test rows; `options` are those of `train_model`."""
    trained = train_model(corpus, split, settings, **options)
    return Scored(trained, trained.probabilities(corpus, split.dev), trained.probabilities(corpus, split.test))
