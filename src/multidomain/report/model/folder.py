"""Reading a model's folder: everything that its report is made from, checked to belong together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, TypeAdapter, ValidationError

from multidomain.data.checks import CorpusSummary
from multidomain.errors import ModelError
from multidomain.evaluation.evaluate import Evaluation
from multidomain.evaluation.invariance import Invariance
from multidomain.model.model import Model
from multidomain.runs.auto import AutoChoice, read_choice
from multidomain.runs.predictions import ANSWERS, FEATURES, HeldOutPredictions
from multidomain.runs.run import LOG, METRICS
from multidomain.training.callbacks import Epoch

_EPOCH: TypeAdapter[Epoch] = TypeAdapter(Epoch)
_TRAIN_AGAIN = "Copy the whole folder again, or train again with --overwrite."


class Data(BaseModel):
    """The corpus that was read."""

    name: str
    sha256: str


class SplitRecord(BaseModel):
    """How it was cut."""

    settings: dict[str, Any]
    rule: str
    rows: dict[str, int]


class Result(BaseModel):
    """What was measured on the weights that were kept."""

    test: Evaluation | None
    invariance: Invariance | None
    invariance_before: Invariance | None = None
    best_epoch: int
    epochs: int
    chosen: dict[str, Any]
    seconds: float


class Metrics(BaseModel):
    """The file that `train` writes last."""

    data: Data
    split: SplitRecord
    settings: dict[str, Any]
    summary: CorpusSummary
    result: Result
    machine: dict[str, Any]


class Tried(BaseModel):
    """Values that a method which is fitted at once was fitted with."""

    tried: dict[str, Any]
    dev_accuracy: float | None


@dataclass(frozen=True, eq=False)
class Answers:
    """Labelled test rows and what the model answered.

    Attributes
    ----------
    lines
        Where each stands in the file of answers, from 1.
    labels, answers
        Numbers of classes.
    confidence
        Probability of the answer.
    """

    lines: np.ndarray
    domains: np.ndarray
    texts: np.ndarray
    labels: np.ndarray
    answers: np.ndarray
    confidence: np.ndarray

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def correct(self) -> np.ndarray:
        """Tell for each row whether the answer is right."""
        return self.labels == self.answers

    def where(self, mask: np.ndarray) -> Answers:
        """Return some of the rows."""
        return Answers(**{name: values[mask] for name, values in vars(self).items()})

    def of(self, domain: str) -> Answers:
        """Return the rows of a domain."""
        return self.where(self.domains == domain)


@dataclass(frozen=True, eq=False)
class ModelFolder:
    """What is in a model's folder.

    Attributes
    ----------
    curves
        Epochs of each network that the log tells of; of an ensemble's networks it may not tell of all.
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
        """Read a folder that `train` wrote; what is missing, damaged or of two different runs is refused."""
        model = Model.load(folder)
        metrics = _metrics(folder / METRICS)
        if metrics.settings.get("method") != model.method_name:
            raise ModelError(f"{folder / METRICS} is of another run than the model beside it. {_TRAIN_AGAIN}")
        curves, tried = _log(folder / LOG, metrics.result)
        files = frozenset(path.name for path in folder.iterdir())
        choice = read_choice(folder)
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
    def domains(self) -> tuple[str, ...]:
        """Return all domains of the corpus; a domain keeps its colour by its place here."""
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
            raise ModelError(f"{folder / ANSWERS} or {FEATURES} does not fit the model beside it. {_TRAIN_AGAIN}")
        test = self.metrics.result.test
        scored = {score.domain: score.rows for score in test.domains} if test else {}
        if dict(Counter(self.answers.domains)) != scored:
            raise ModelError(f"{folder / ANSWERS} holds other test rows than {METRICS} has scored. {_TRAIN_AGAIN}")


def _metrics(path: Path) -> Metrics:
    if not path.exists():
        raise ModelError(
            f"{path} is missing: the training has not ended, or the model was not made by 'multidomain train', which "
            "keeps there what a report needs. Go on with the training (--resume), or train again."
        )
    try:
        return Metrics.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"]))
        raise ModelError(
            f"{path} cannot be used: '{where}': {fault['msg'].lower()}. It is damaged or of another version of "
            f"multidomain. {_TRAIN_AGAIN}"
        ) from None
    except ValueError:
        raise ModelError(f"{path} is damaged. {_TRAIN_AGAIN}") from None


def _log(path: Path, result: Result) -> tuple[tuple[tuple[Epoch, ...], ...], tuple[Tried, ...]]:
    """Read the log; the epochs of a network are those up to the next that begins anew."""
    curves: list[list[Epoch]] = []
    tried = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for line in map(json.loads, lines):
            if isinstance(line, Mapping) and "tried" in line:
                tried.append(Tried.model_validate(line))
                continue
            epoch = _EPOCH.validate_python(line)
            if not curves or epoch.epoch <= curves[-1][-1].epoch:
                curves.append([])
            curves[-1].append(epoch)
    except ValueError:  # of JSON, of UTF-8, or of what the line must hold
        raise ModelError(f"{path} is damaged. {_TRAIN_AGAIN}") from None
    if result.epochs and [len(curve) for curve in curves] != [result.epochs]:
        raise ModelError(f"{path} does not tell of the {result.epochs} epochs in {METRICS}. {_TRAIN_AGAIN}")
    return tuple(map(tuple, curves)), tuple(tried)
