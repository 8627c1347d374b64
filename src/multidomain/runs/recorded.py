"""What the metrics file of a run holds."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, model_validator

from multidomain.data.checks import CorpusSummary
from multidomain.evaluation.evaluate import Evaluation
from multidomain.evaluation.invariance import Invariance
from multidomain.metrics import Metric
from multidomain.runs.unlabelled import UnlabelledDomain


class Data(BaseModel):
    """The corpus that was read."""

    name: str
    sha256: str


class SplitRecord(BaseModel):
    """How it was split."""

    settings: dict[str, Any]
    rule: str
    rows: dict[str, int]


class Result(BaseModel):
    """What was measured on the kept checkpoint."""

    test: Evaluation | None
    invariance: Invariance | None
    invariance_before: Invariance | None = None
    best_epoch: int
    epochs: int
    chosen: dict[str, Any]
    seconds: float
    unlabelled: list[UnlabelledDomain] = []


class Objective(BaseModel):
    """What counted in training."""

    metric: Metric = "accuracy"


class RecordedSettings(BaseModel):
    """The settings of a run, under their current names, as far as they are read."""

    method: str
    method_settings: dict[str, Any] = {}
    features: dict[str, dict[str, Any]] = {}
    training: dict[str, Any] = {}
    objective: Objective = Objective()


class Metrics(BaseModel):
    """The contents of the metrics file, which `train` writes last."""

    data: Data
    split: SplitRecord
    settings: dict[str, Any]
    summary: CorpusSummary
    result: Result
    machine: dict[str, Any]

    @model_validator(mode="after")
    def _counts_of_all_classes(self) -> Self:
        classes = set(self.summary.class_names)
        if any(domain.per_class.keys() != classes for domain in self.summary.domains.values()):
            raise ValueError("the summary counts other classes than it names")
        return self
