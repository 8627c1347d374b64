"""The trials of a study: Optuna's journal keeps them, and its sampler proposes new ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from multidomain.errors import ModelError
from multidomain.tuning.space import Dimension, all_combinations, combinations
from multidomain.tuning.trial import Trial, TrialRecord, TrialResult, scores_to_beat

_NAME = "multidomain"
_STATES = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
}


class Journal:
    """The trials of a study in a file of JSON lines, which one process at a time writes.

    A trial is one line when it begins, and it ends with a line, so that a process can be killed at any moment.
    """

    def __init__(self, path: Path):
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._path = path
        try:
            self._storage = JournalStorage(JournalFileBackend(str(path), lock_obj=_LockedFolder()))
            studies = self._storage.get_all_studies()
            self._study = studies[0]._study_id if studies else self._new_study()
        except (ValueError, KeyError, TypeError, AssertionError) as error:
            raise ModelError(
                f"{path} is damaged ({error}).", "Restore it, or start the study anew with {overwrite}."
            ) from None

    def _new_study(self) -> int:
        return self._storage.create_new_study([StudyDirection.MAXIMIZE], _NAME)

    def records(self) -> list[TrialRecord]:
        """Return all trials by number."""
        return [_record(trial) for trial in self._storage.get_all_trials(self._study)]

    def begin(self, space: Sequence[Dimension], seed: int) -> int:
        """Begin a trial and return its number; the first one has the defaults.

        What is proposed depends on the seed, the number and the trials so far alone, so that a study which was stopped
        goes on as it would have.
        """
        trials = self._storage.get_all_trials(self._study)
        distributions = {one.name: _distribution(one) for one in space}
        if trials:
            values = _proposed(space, distributions, trials, np.random.default_rng([seed, len(trials)]))
        else:
            values = {one.name: one.default for one in space if one.default is not None}
        searched = {name: distributions[name] for name in values}
        started = create_trial(state=TrialState.RUNNING, params=values, distributions=searched)
        self._storage.create_new_trial(self._study, started)
        return len(trials)

    def task(self, number: int, *, prune: bool) -> Trial:
        """Return the task of a trial, with the scores to beat as they are by now."""
        records = self.records()
        curves = [one.dev_scores for one in records if one.state == "complete" and one.dev_scores]
        to_beat = scores_to_beat(curves) if prune and number else ()
        return Trial(number, records[number].values if number else {}, to_beat)

    def end(self, number: int, result: TrialResult) -> None:
        """Record how a trial has ended."""
        trial = self._storage.get_trial_id_from_study_id_trial_number(self._study, number)
        for epoch, score in enumerate(result.dev_scores, start=1):
            self._storage.set_trial_intermediate_value(trial, epoch, score)
        self._storage.set_trial_user_attr(trial, "seconds", round(result.seconds, 1))
        if result.error:
            self._storage.set_trial_user_attr(trial, "error", result.error)
        state = TrialState.PRUNED if result.pruned else TrialState.COMPLETE
        if result.score is None:
            self._storage.set_trial_state_values(trial, TrialState.FAIL)
        else:
            self._storage.set_trial_state_values(trial, state, [result.score])


class _LockedFolder:
    """In place of Optuna's lock file, which a killed process would leave behind: the folder of a study is locked."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        pass


def _distribution(one: Dimension) -> BaseDistribution:
    if one.choices:
        return CategoricalDistribution(one.choices)
    if isinstance(one.low, int):
        return IntDistribution(one.low, int(one.high), log=one.log)
    return FloatDistribution(one.low, one.high, log=one.log)


def _proposed(
    space: Sequence[Dimension],
    distributions: Mapping[str, BaseDistribution],
    trials: Sequence[FrozenTrial],
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Return what Optuna's sampler proposes; of values that can be counted some that were not tried, if there are."""
    sampler = optuna.samplers.TPESampler(seed=int(rng.integers(2**32)))
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.add_trials([trial for trial in trials if trial.params.keys() == distributions.keys()])
    proposed = study.ask(dict(distributions)).params
    tried = [trial.params for trial in trials]
    if proposed in tried and combinations(space) <= 10_000:
        untried = [values for values in all_combinations(space) if values not in tried]
        proposed = untried[rng.integers(len(untried))] if untried else proposed
    return proposed


def _record(trial: FrozenTrial) -> TrialRecord:
    attributes = trial.user_attrs
    return TrialRecord(
        number=trial.number,
        values=trial.params,
        state=_STATES[trial.state],
        score=trial.value,
        dev_scores=tuple(score for _, score in sorted(trial.intermediate_values.items())),
        seconds=attributes.get("seconds", 0.0),
        error=attributes.get("error", ""),
    )
