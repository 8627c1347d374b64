"""A trial: the method is trained with some settings, in a worker, and scored on the dev set."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from multidomain.errors import ConfigError, MachineError, TrainingError
from multidomain.features.base import Documents
from multidomain.methods.history import Epoch
from multidomain.metrics import Metric, selection_score
from multidomain.runs.job import Job, begun
from multidomain.runs.plan import Plan
from multidomain.threads import use_threads
from multidomain.training.callbacks import Callback
from multidomain.training.train import Trained, suited_device, train_model
from multidomain.tuning.space import configured

_NEVER_PRUNED = 2  # epochs
_FEWEST_CURVES = 4  # to compare with


@dataclass(frozen=True)
class Trial:
    """A task for a worker.

    Attributes
    ----------
    values
        The searched settings by name; empty for the one without a search.
    to_beat
        By epoch, the dev score that is needed to go on; empty: training always goes on.
    """

    number: int
    values: Mapping[str, Any]
    to_beat: tuple[float, ...] = ()

    def __str__(self) -> str:
        return f"trial {self.number} ({shown_values(self.values) or 'no setting changed'})"


@dataclass(frozen=True)
class TrialResult:
    """How a trial has ended.

    Attributes
    ----------
    score
        On the dev set, of the best epoch; None if it failed.
    dev_scores
        After each epoch.
    error
        Why it failed.
    """

    score: float | None
    dev_scores: tuple[float, ...] = ()
    pruned: bool = False
    seconds: float = 0.0
    error: str = field(default="", kw_only=True)


@dataclass(frozen=True)
class TrialRecord:
    """A trial as the journal has it.

    Attributes
    ----------
    state
        ``complete``, ``pruned``, ``failed`` or ``running``, also of one that was cut off.
    score, dev_scores, seconds, error
        As in `TrialResult`.
    """

    number: int
    values: dict[str, Any]
    state: str
    score: float | None
    dev_scores: tuple[float, ...]
    seconds: float
    error: str

    @property
    def is_finished(self) -> bool:
        """Tell whether it need not be run again."""
        return self.state != "running"


def shown_values(values: Mapping[str, Any]) -> str:
    """Return the values of a trial as people read them."""
    return ", ".join(f"{name} {shown_value(value)}" for name, value in values.items())


def shown_value(value: Any) -> str:
    """Return a value as people read it."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def scores_to_beat(curves: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return, by epoch, the median over trials of the best dev score until then; empty if there are too few trials.

    A trial that stopped early counts with its best score from then on.

    Examples
    --------
    >>> scores_to_beat([[0.5, 0.875], [0.625, 0.5], [0.75], [0.5, 0.625]])
    (0.5625, 0.6875)
    """
    longest = max(map(len, curves), default=0)
    if len(curves) < _FEWEST_CURVES or not longest:
        return ()
    best = [np.maximum.accumulate(np.pad(curve, (0, longest - len(curve)), mode="edge")) for curve in curves]
    return tuple(np.median(best, axis=0).tolist())


def checkpoint_of(checkpoints: Path, number: int) -> Path:
    """Return where a trial is kept while it is under way."""
    return checkpoints / f"trial-{number}.safetensors"


def run_trial(job: Job, checkpoints: Path, trial: Trial) -> TrialResult:
    """Train with the settings of a trial, and score it on the dev set; test rows are not even encoded.

    Settings that do not go together, and training that diverges, are a result. That this machine lacks a device or
    memory is an error: elsewhere the trial can be repeated.
    """
    began = time.monotonic()
    with begun(job) as (plan, documents):
        plan = replace(plan, split=replace(plan.split, test=plan.split.test[:0]))
        watch = _Watch(trial.to_beat)
        try:
            score = _trained_score(plan, documents, trial, watch, checkpoint_of(checkpoints, trial.number))
        except _Pruned:
            return TrialResult(max(watch.scores), tuple(watch.scores), True, time.monotonic() - began)
        except MachineError:
            raise
        except (ConfigError, TrainingError) as error:
            return TrialResult(None, tuple(watch.scores), seconds=time.monotonic() - began, error=str(error))
    return TrialResult(score, tuple(watch.scores), seconds=time.monotonic() - began)


def _trained_score(plan: Plan, documents: Documents, trial: Trial, watch: _Watch, checkpoint: Path) -> float:
    config = configured(plan.config, trial.values)
    settings = replace(plan, config=config).settings
    use_threads(config.threads)
    trained = train_model(
        plan.corpus,
        plan.split,
        settings,
        device=suited_device(settings, config.device),
        checkpoint_path=checkpoint,
        callbacks=[watch] if settings.requirements.in_epochs else [],
        documents=documents,
    )
    return _dev_score(plan, trained, settings.objective.metric)


def _dev_score(plan: Plan, trained: Trained, metric: Metric) -> float:
    corpus, rows = plan.corpus, plan.split.dev[plan.corpus.labelled[plan.split.dev]]
    classes = np.array(trained.model.classes).astype(str)
    predicted = classes[trained.probabilities(corpus, rows).argmax(axis=1)]
    return selection_score(metric, corpus.labels[rows].astype(str), predicted, corpus.domains[rows])


class _Pruned(Exception):
    """A trial has fallen behind."""


class _Watch(Callback):
    """Keeps the dev scores of a trial, and stops it when it has fallen behind."""

    def __init__(self, to_beat: Sequence[float]):
        self._to_beat = to_beat
        self.scores: list[float] = []

    def on_train_begin(self, max_epochs: int, iterations: int, past: list[Epoch]) -> None:
        self.scores = [epoch.dev_score for epoch in past if epoch.dev_score is not None]

    def on_epoch_end(self, epoch: Epoch, is_best: bool) -> None:
        assert epoch.dev_score is not None
        self.scores.append(epoch.dev_score)
        is_compared = self._to_beat and epoch.epoch > _NEVER_PRUNED
        if is_compared and max(self.scores) < self._to_beat[min(epoch.epoch, len(self._to_beat)) - 1]:
            raise _Pruned
