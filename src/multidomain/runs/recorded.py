"""What the metrics file of a run holds."""

from __future__ import annotations

from math import isfinite
from typing import Any, Self

from pydantic import BaseModel, field_validator, model_validator

from multidomain.data.checks import CorpusSummary
from multidomain.data.settings import SplitSettings
from multidomain.evaluation.evaluate import BASELINES, Evaluation
from multidomain.evaluation.invariance import Invariance
from multidomain.metrics import Metric
from multidomain.runs.compaction import Compaction
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

    @field_validator("settings")
    @classmethod
    def _of_a_split(cls, values: dict[str, Any]) -> dict[str, Any]:
        SplitSettings.parse(values, "settings of a split")
        return values


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
    compaction: Compaction | None = None

    @model_validator(mode="after")
    def _scores_are_shares(self) -> Self:
        for score in self.test.domains if self.test else ():
            shares = (score.accuracy, score.macro_f1, *(getattr(score, name) for name in BASELINES))
            if score.rows < 1 or not all(share is None or 0 <= share <= 1 for share in shares):
                raise ValueError("a test score is not a share of rows")
        for probe in filter(None, (self.invariance, self.invariance_before)):
            shares = (probe.accuracy, probe.chance)
            if probe.rows < 1 or not all(0 <= share <= 1 for share in shares) or not isfinite(probe.nats + probe.most):
                raise ValueError("invariance is not what a probe measures")
        return self


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
        classes, domains = sorted(self.summary.class_names), self.summary.domains.values()
        if not domains or any(sorted(domain.per_class) != classes for domain in domains):
            raise ValueError("the summary counts other classes than it names")
        return self
