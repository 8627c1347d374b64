"""The folds of a cross-validation as tasks on an engine."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from math import ceil, inf

import numpy as np

from multidomain.data.prior_shift import shift_hidden_priors
from multidomain.data.splits import Split, cross_validation
from multidomain.engines.base import Engine
from multidomain.errors import TrainingError
from multidomain.runs.folds import Clock, OutOfTime, Tried, predicted_classes
from multidomain.runs.job import Job, begun
from multidomain.runs.plan import Plan
from multidomain.threads import use_threads
from multidomain.training.settings import RunSettings


@dataclass(frozen=True)
class Elsewhere:
    """An engine, entered already, and what its workers need to know."""

    engine: Engine
    job: Job


@dataclass(frozen=True)
class FoldTask:
    """A method that a worker shall train on a fold, in so many seconds."""

    number: int
    settings: RunSettings
    fold: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.settings.entry.name} on fold {self.fold}"


@dataclass(frozen=True)
class FoldResult:
    """The predicted classes of the test rows; None if the method ran out of time or has diverged."""

    seconds: float
    predicted: np.ndarray | None = None
    divergence: TrainingError | None = None


@dataclass
class _Method:
    """A method that is being tried, until a deadline."""

    number: int
    settings: RunSettings
    deadline: float
    seconds: float = 0.0
    predicted: dict[int, np.ndarray] = field(default_factory=dict)
    divergence: TrainingError | None = None
    late: bool = False

    def add(self, fold: int, result: FoldResult) -> None:
        self.seconds += result.seconds
        if result.predicted is not None:
            self.predicted[fold] = result.predicted
        else:
            self.divergence = self.divergence or result.divergence
            self.late = self.divergence is None

    def seconds_left(self, n_folds: int, workers: int) -> float:
        """Return how much time there is for another fold; negative if there is none for all that are to come."""
        left, done = self.deadline - time.monotonic(), len(self.predicted)
        ahead = self.seconds / done * ceil((n_folds - done) / workers) if done else 0.0
        return left if ahead <= left else -1.0


def try_on_engine(elsewhere: Elsewhere, methods: Sequence[RunSettings], n_folds: int, budget: float) -> Iterator[Tried]:
    """Train each method on each fold, as tasks, and yield the methods in their order as they are done.

    As in `try_in_turn`, the budget does not bind the first. If no method has ended at the end, those that ran out of
    time are tried again without a limit.
    """
    deadline = time.monotonic() + budget
    each = [_Method(i, own, deadline if i else inf) for i, own in enumerate(methods)]
    comparison, yielded = _Comparison(elsewhere, each, n_folds), 0
    for _ in comparison.steps():
        while yielded < len(each) and (tried := comparison.tried(each[yielded])):
            yield tried
            yielded += 1


class _Comparison:
    """Methods that are tried on an engine."""

    def __init__(self, elsewhere: Elsewhere, methods: Sequence[_Method], n_folds: int):
        self._elsewhere = elsewhere
        self._methods = methods
        self._n_folds = n_folds

    def steps(self) -> Iterator[None]:
        """Run everything, and yield whenever something has ended."""
        yield from self._run(self._methods)
        while not self._some_ended and (late := [method for method in self._methods if method.late]):
            late[0].late, late[0].deadline = False, inf
            yield from self._run(late[:1])
        yield

    def tried(self, method: _Method) -> Tried | None:
        """Return how it went, if that is known."""
        if len(method.predicted) == self._n_folds:
            in_order = [method.predicted[fold] for fold in range(self._n_folds)]
            return Tried(method.settings, in_order, method.seconds)
        if method.divergence or (method.late and self._some_ended):
            return Tried(method.settings, None, method.seconds, method.divergence)
        return None

    @property
    def _some_ended(self) -> bool:
        return any(len(method.predicted) == self._n_folds for method in self._methods)

    def _run(self, methods: Sequence[_Method]) -> Iterator[None]:
        engine, job = self._elsewhere.engine, self._elsewhere.job
        for outcome in engine.map(partial(train_fold, job), self._tasks(methods), ahead=1):
            if outcome.error is not None:
                raise outcome.error
            self._methods[outcome.task.number].add(outcome.task.fold, outcome.value)
            yield

    def _tasks(self, methods: Sequence[_Method]) -> Iterator[FoldTask]:
        """Yield tasks when workers are free for them, none of methods that have diverged or have no time left."""
        for method in methods:
            for fold in sorted(set(range(self._n_folds)) - method.predicted.keys()):
                left = method.seconds_left(self._n_folds, self._elsewhere.engine.at_a_time)
                method.late = method.late or left <= 0
                if method.late or method.divergence:
                    break
                yield FoldTask(method.number, method.settings, fold, left)


def train_fold(job: Job, task: FoldTask) -> FoldResult:
    """Train a method on a fold in a worker; the time to read the data does not count."""
    with begun(job) as (plan, documents):
        use_threads(plan.config.threads)
        fold, started = _folds(plan)[task.fold], time.monotonic()
        clock, device = Clock(started + task.seconds), plan.config.device
        predicted = divergence = None
        try:
            predicted = predicted_classes(plan.corpus, fold, task.settings, device, [clock], documents)
        except OutOfTime:
            pass
        except TrainingError as fault:
            divergence = fault
        return FoldResult(time.monotonic() - started, predicted, divergence)


@lru_cache(maxsize=1)
def _folds(plan: Plan) -> list[Split]:
    seed = plan.settings.training.seed
    folds = cross_validation(plan.corpus, plan.split, plan.config.auto.folds, seed)
    return shift_hidden_priors(plan.corpus, plan.split, folds, seed)
