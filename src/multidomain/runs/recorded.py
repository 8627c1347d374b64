"""What the metrics file of a run holds."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from multidomain.data.checks import CorpusSummary
from multidomain.evaluation.evaluate import Evaluation
from multidomain.evaluation.invariance import Invariance
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


class Metrics(BaseModel):
    """The contents of the metrics file, which `train` writes last."""

    data: Data
    split: SplitRecord
    settings: dict[str, Any]
    summary: CorpusSummary
    result: Result
    machine: dict[str, Any]
