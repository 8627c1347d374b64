"""What a model loses when it is made compact, and what that saves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multidomain.data.corpus import Corpus
from multidomain.data.splits import Split
from multidomain.evaluation.evaluate import evaluate
from multidomain.model.model import Model
from multidomain.runs.scoring import Scored


@dataclass(frozen=True)
class Compaction:
    """Figures of a model before and after n-grams were dropped from it.

    Attributes
    ----------
    inputs, n_bytes
        Number of n-grams, and size of all weights and of the vocabulary.
    dev_changed, test_changed
        Number of predictions that are others than before.
    dev_accuracy, test_accuracy
        Mean over domains; None without labelled rows.
    """

    inputs: tuple[int, int]
    n_bytes: tuple[int, int]
    dev_changed: int
    test_changed: int
    dev_accuracy: tuple[float, float] | None
    test_accuracy: tuple[float, float] | None

    @classmethod
    def of(cls, scored: Scored, corpus: Corpus, split: Split) -> Compaction | None:
        """Compare a model with the whole one; None if it is the whole one."""
        whole = scored.trained.whole
        if whole is None:
            return None
        models = (whole.model, scored.trained.model)
        dev = (whole.probabilities(corpus, split.dev), scored.dev)
        test = (whole.probabilities(corpus, split.test), scored.test)
        return cls(
            inputs=(models[0].features.n_inputs, models[1].features.n_inputs),
            n_bytes=(models[0].n_bytes, models[1].n_bytes),
            dev_changed=_changed(*dev),
            test_changed=_changed(*test),
            dev_accuracy=_accuracies(models[1], corpus, split.dev, dev),
            test_accuracy=_accuracies(models[1], corpus, split.test, test),
        )

    def __str__(self) -> str:
        """Describe the saving and the loss in a line."""
        (inputs, fewer), (n_bytes, smaller) = self.inputs, self.n_bytes
        said = f"{fewer:,} of {inputs:,} n-grams, {smaller / 1e6:.3g} of {n_bytes / 1e6:.3g} MB"
        for part, both in (("dev", self.dev_accuracy), ("test", self.test_accuracy)):
            if both:
                said += f"; {part} accuracy {both[1]:.2%}, before {both[0]:.2%}"
        return said


def _changed(before: np.ndarray, after: np.ndarray) -> int:
    return int((before.argmax(axis=1) != after.argmax(axis=1)).sum())


def _accuracies(
    model: Model, corpus: Corpus, rows: np.ndarray, both: tuple[np.ndarray, np.ndarray]
) -> tuple[float, float] | None:
    has_label = corpus.labelled[rows]
    if not has_label.any():
        return None
    before, after = (evaluate(model, corpus, rows[has_label], p[has_label]).accuracy for p in both)
    return before, after
