"""A search over the settings of a method: trials on an engine, which go on after any process was killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from multidomain.code import code_hash
from multidomain.data.checks import check_trainable
from multidomain.engines.base import Engine, Outcome
from multidomain.engines.local import LocalEngine
from multidomain.errors import ConfigError, Note, TrainingError, WorkerError
from multidomain.runs.config import AUTO, TrainConfig
from multidomain.runs.job import Job
from multidomain.runs.machine import machine
from multidomain.runs.plan import Plan
from multidomain.tuning.folder import Asked, StudyFolder, best_of, journal_type
from multidomain.tuning.space import Dimension, combinations, search_space
from multidomain.tuning.trial import Trial, TrialRecord, TrialResult, checkpoint_of, run_trial


@dataclass(frozen=True)
class Progress:
    """What is known when a trial has ended."""

    record: TrialRecord
    best: TrialRecord | None
    done: int
    total: int
    seconds_left: float


@dataclass(frozen=True)
class Study:
    """A study that is about to run.

    Attributes
    ----------
    trials
        How many it shall have, no more than there are combinations of values.
    """

    plan: Plan
    space: Sequence[Dimension]
    trials: int
    prune: bool = True

    @property
    def folder(self) -> StudyFolder:
        """Return the folder of the study."""
        return StudyFolder(Path(self.plan.config.output))

    @property
    def asked(self) -> Asked:
        """Return what is asked for."""
        config, corpus = self.plan.config, self.plan.corpus
        return Asked(
            config=config.model_dump(mode="json", exclude_unset=True, exclude_none=True),
            search={one.name: one.spec for one in self.space},
            prune=self.prune,
            smoke=self.plan.smoke,
            data={"name": corpus.name, "sha256": corpus.content_hash()},
            code=code_hash(),
            machine=machine(),
        )


def plan_study(plan: Plan, search: Sequence[str], trials: int, *, prune: bool = True) -> Study:
    """Check what a study is asked for, before anything is trained.

    Parameters
    ----------
    search
        As for `search_space`.
    """
    corpus, dev = plan.corpus, plan.split.dev
    if not corpus.labelled[dev].any():
        raise ConfigError("There are no labelled dev rows to compare settings on.", "Label some, or give {dev=FILE}.")
    space = search_space(plan.config, search)
    return Study(plan, space, int(min(trials, combinations(space))), prune)


def check_tunable(config: TrainConfig) -> None:
    """Refuse a config that has no settings to search, before data are read; or say what is not installed."""
    journal_type()
    if config.method == AUTO:
        raise ConfigError("A search is over the settings of one method.", "Name it ({method=NAME}).")


def tune(
    study: Study,
    *,
    engine: Engine | None = None,
    overwrite: bool = False,
    on_plan: Callable[[int], None] = lambda n_trials: None,
    on_note: Callable[[Note], None] = lambda note: None,
    on_trial: Callable[[Progress], None] = lambda progress: None,
) -> TrialRecord:
    """Run all trials that have not ended, in the folder of the study, and return the best one.

    It can be stopped or killed at any time, and goes on when it is called again; networks go on from a checkpoint.

    Parameters
    ----------
    engine
        Where trials take place; by default in one process of this machine. It is entered here, if there is anything
        to run.
    overwrite
        Replace the study in the folder.
    on_plan, on_note, on_trial
        Called with the number of trials to run, with notes on the data and the study, and as each trial ends.
    """
    folder, asked = study.folder, study.asked
    notes = check_trainable(study.plan.corpus, study.plan.split)
    with folder.held():
        for note in [*notes, *folder.begin(asked, overwrite=overwrite)]:
            on_note(note)
        run = _Running(study, asked, folder)
        on_plan(study.trials - run.n_finished)
        if run.n_finished < study.trials:
            with engine or LocalEngine(workers=1) as where:
                run.all(where, on_trial)
        records = run.journal.records()
        folder.write(asked, records)
    best = best_of(records)
    if best is None:
        raise TrainingError(f"No trial was completed. The first one: {records[0].error}")
    return best


class _Running:
    """The part of a study that runs."""

    def __init__(self, study: Study, asked: Asked, folder: StudyFolder):
        self._study, self._asked, self._folder = study, asked, folder
        self._failed: Exception | None = None
        self.journal = folder.journal_to_write()

    @property
    def n_finished(self) -> int:
        """Return how many trials have ended."""
        return sum(one.is_finished for one in self.journal.records())

    def all(self, engine: Engine, on_trial: Callable[[Progress], None]) -> None:
        """Run the trials that were cut off, and new ones; each is made when a worker is free for it."""
        checkpoints = self._folder.checkpoints.resolve()
        run = partial(run_trial, Job.of(self._study.plan), checkpoints)
        for outcome in engine.map(run, self._tasks(), ahead=1):
            if outcome.error is not None and not isinstance(outcome.error, WorkerError):
                self._failed = self._failed or outcome.error
                continue
            self._end(outcome)
            on_trial(self._progress(outcome.task.number, engine.at_a_time))
        if self._failed is not None:
            raise self._failed

    def _tasks(self) -> Iterator[Trial]:
        cut_off = [one.number for one in self.journal.records() if not one.is_finished]
        begun = len(self.journal.records())
        for number in [*cut_off, *range(begun, self._study.trials)]:
            if self._failed is not None or number >= self._study.trials:
                return
            if number >= begun:
                self.journal.begin(self._study.space, self._study.plan.config.seed)
            yield self.journal.task(number, prune=self._study.prune)

    def _end(self, outcome: Outcome[Trial]) -> None:
        number = outcome.task.number
        self.journal.end(number, outcome.value or TrialResult(None, error=str(outcome.error)))
        for path in self._folder.checkpoints.glob(f"{checkpoint_of(Path(), number).stem}[-.]*"):
            path.unlink()  # an ensemble has one for each member
        self._folder.write(self._asked, self.journal.records())

    def _progress(self, number: int, workers: int) -> Progress:
        records, total = self.journal.records(), self._study.trials
        finished = [one for one in records if one.is_finished]
        each = float(np.mean([one.seconds for one in finished]))
        left = each * (total - len(finished)) / workers
        return Progress(records[number], best_of(records), len(finished), total, left)
