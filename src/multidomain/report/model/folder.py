"""Reading a model's folder: the inputs of its report, checked for consistency."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import AliasChoices, BaseModel, Field

from multidomain.data.texts import Texts
from multidomain.errors import ModelError
from multidomain.methods.history import Epoch
from multidomain.metrics import Metric
from multidomain.model.model import Model
from multidomain.runs.choice import AutoChoice
from multidomain.runs.folder import LOG, METRICS, RunFolder
from multidomain.runs.predictions import ANSWERS, FEATURES, HeldOutPredictions
from multidomain.runs.recorded import Metrics, Result
from multidomain.saved import read_json_lines, validated

_TRAIN_AGAIN = "Copy the whole folder again, or train again with {overwrite}."


class Tried(BaseModel):
    """Hyperparameters tried by a method that does not learn in epochs."""

    tried: dict[str, Any]
    dev_score: float | None = Field(validation_alias=AliasChoices("dev_score", "dev_accuracy"))


@dataclass(frozen=True, eq=False)
class Answers:
    """Labelled test rows and the model's predictions.

    Attributes
    ----------
    lines
        Line of each row in the predictions file, from 1.
    labels, answers
        Class codes: the label and the prediction.
    confidence
        Probability of the predicted class.
    """

    lines: np.ndarray
    domains: np.ndarray
    texts: np.ndarray | Texts
    labels: np.ndarray
    answers: np.ndarray
    confidence: np.ndarray

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def correct(self) -> np.ndarray:
        """Return, for each row, whether the prediction is correct."""
        return self.labels == self.answers

    def where(self, mask: np.ndarray) -> Answers:
        """Return some of the rows."""
        return Answers(**{name: values[mask] for name, values in vars(self).items()})

    def of(self, domain: str) -> Answers:
        """Return the rows of a domain."""
        return self.where(self.domains == domain)


@dataclass(frozen=True, eq=False)
class ModelFolder:
    """The contents of a model's folder.

    Attributes
    ----------
    curves
        Epochs of each network in the log; the log may not cover every network of an ensemble.
    choice
        How the method was chosen; None if it was given.
    """

    model: Model
    metrics: Metrics
    held_out: HeldOutPredictions
    curves: tuple[tuple[Epoch, ...], ...]
    tried: tuple[Tried, ...]
    files: frozenset[str]
    choice: AutoChoice | None

    @classmethod
    def read(cls, folder: Path) -> ModelFolder:
        """Read a folder that `train` wrote; files that are missing, damaged or of different runs are an error."""
        model = Model.load(folder)
        metrics = _metrics(folder / METRICS)
        if metrics.settings.get("method") != model.method_name:
            raise ModelError(f"{folder / METRICS} is from a different run than the model beside it.", _TRAIN_AGAIN)
        curves, tried = _log(folder / LOG, metrics.result)
        files = frozenset(path.name for path in folder.iterdir())
        choice = RunFolder(folder).choice()
        if choice and choice.method != model.method_name:
            choice = None
        read = cls(model, metrics, HeldOutPredictions.load(folder), curves, tried, files, choice)
        read._check_held_out(folder)
        return read

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """Return the names of the classes."""
        return tuple(map(str, self.model.classes))

    @property
    def metric(self) -> Metric:
        """Return the metric that selected the model."""
        metric: Metric = self.metrics.settings.get("objective", {}).get("metric", "accuracy")
        return metric

    @property
    def domains(self) -> tuple[str, ...]:
        """Return all domains of the corpus; a domain's position here determines its colour."""
        return tuple(self.metrics.summary.domains)

    @cached_property
    def answers(self) -> Answers:
        """Return the labelled test rows."""
        held = self.held_out
        rows = np.flatnonzero((held.parts == "test") & (held.labels != None))  # noqa: E711
        probabilities = held.probabilities[rows].reshape(len(rows), len(self.classes))
        code_of = {name: code for code, name in enumerate(self.classes)}
        return Answers(
            lines=rows + 1,
            domains=held.domains[rows],
            texts=held.texts[rows],
            labels=np.array([code_of[str(label)] for label in held.labels[rows]], dtype=np.int64),
            answers=probabilities.argmax(axis=1),
            confidence=probabilities.max(axis=1),
        )

    def _check_held_out(self, folder: Path) -> None:
        held = self.held_out
        shape = (len(held), len(self.classes)) if len(held) else held.probabilities.shape
        known = {None, *self.classes}
        features = [array for array in (held.shared, held.private) if array is not None]
        if (
            held.probabilities.shape != shape
            or any(label is not None and str(label) not in known for label in held.labels)
            or not set(held.domains) <= set(self.domains)
            or any(len(array) != len(held.featured) for array in features)
            or (len(held.featured) and not 0 <= held.featured.min() <= held.featured.max() < len(held))
        ):
            raise ModelError(f"{folder / ANSWERS} or {FEATURES} does not match the model beside it.", _TRAIN_AGAIN)
        test = self.metrics.result.test
        scored = {score.domain: score.rows for score in test.domains} if test else {}
        if dict(Counter(self.answers.domains)) != scored:
            raise ModelError(f"{folder / ANSWERS} and {METRICS} disagree on the test rows.", _TRAIN_AGAIN)


def _metrics(path: Path) -> Metrics:
    if not path.exists():
        raise ModelError(
            f"{path} is missing: training has not finished, or the model was not made by 'multidomain train', which "
            "writes what a report needs.",
            "Resume the training ({resume}), or train again.",
        )
    return validated(RunFolder(path.parent).metrics(), Metrics, path, _TRAIN_AGAIN)


def _log(path: Path, result: Result) -> tuple[tuple[tuple[Epoch, ...], ...], tuple[Tried, ...]]:
    """Read the log; a network's epochs end where the epoch number starts over."""
    curves: list[list[Epoch]] = []
    tried = []
    for line in read_json_lines(path, dict[str, Any], _TRAIN_AGAIN) if path.exists() else ():
        if "tried" in line:
            tried.append(validated(line, Tried, path, _TRAIN_AGAIN))
            continue
        epoch = validated(line, Epoch, path, _TRAIN_AGAIN)
        if not curves or epoch.epoch <= curves[-1][-1].epoch:
            curves.append([])
        curves[-1].append(epoch)
    if result.epochs and [len(curve) for curve in curves] != [result.epochs]:
        raise ModelError(f"{path} does not hold the {result.epochs} epochs of {METRICS}.", _TRAIN_AGAIN)
    return tuple(map(tuple, curves)), tuple(tried)
