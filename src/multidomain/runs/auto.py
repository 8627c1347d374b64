"""The method that suits some data: several are cross-validated, and the most accurate is taken."""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, TypeAdapter, field_validator

from multidomain.data.corpus import Corpus
from multidomain.data.splits import Split, cross_validation
from multidomain.errors import ConfigError, DataError, MultidomainWarning, counted
from multidomain.files import write_json
from multidomain.methods.registry import RECOMMENDED, method_entry
from multidomain.model.model import Model
from multidomain.training.train import Device, RunSettings, fingerprint, resolved_device, suited_device, train_model
from multidomain.settings import Settings, listed
from multidomain.training.callbacks import Epoch, Callback

AUTO = "auto"
CHOICE = "choice.json"
_FEWEST_ROWS = 60  # by fewer, methods cannot be told apart


class AutoSettings(Settings):
    """How a method is chosen."""

    methods: tuple[str, ...] = Field(("fa-lr", RECOMMENDED, "man-nll"), min_length=2, description="what to compare")
    folds: int = Field(3, ge=2, description="of the cross-validation")
    budget: float = Field(10, gt=0, description="minutes; a method that does not end in time is left out")

    _as_list = field_validator("methods", mode="before")(listed)

    @field_validator("methods")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            method_entry(name)
            if names.count(name) > 1:
                raise ValueError(f"'{name}' is named twice")
        return names


@dataclass(frozen=True)
class Candidate:
    """A method that was tried.

    Attributes
    ----------
    accuracy, error
        Cross-validated, with its standard error; None if it did not end in time.
    """

    method: str
    accuracy: float | None
    error: float | None
    seconds: float

    def __str__(self) -> str:
        if self.accuracy is None or self.error is None:
            return f"{self.method} not within the time given ({self.seconds:.0f} s)"
        return f"{self.method} {100 * self.accuracy:.2f} ± {100 * self.error:.2f} % right ({self.seconds:.0f} s)"


@dataclass(frozen=True)
class AutoChoice:
    """The method that was chosen, and what it was compared with.

    Attributes
    ----------
    rule
        How accuracy was measured, for people.
    fingerprint
        Of data, split and settings that the choice is for.
    """

    method: str
    candidates: tuple[Candidate, ...]
    rule: str
    fingerprint: str

    @property
    def reason(self) -> str:
        """Say why this method, and what the others would have given."""
        best_first = sorted(self.candidates, key=lambda candidate: -(candidate.accuracy or 0))
        return f"{'; '.join(map(str, best_first))}; {self.rule}"


class _OutOfTime(Exception):
    """A method takes longer than it may."""


class _Clock(Callback):
    """Stops a training whose time is up."""

    def __init__(self, deadline: float):
        self._deadline = deadline

    def check(self, ahead: float = 0) -> None:
        """Stop if the time is up, or will be after so many seconds more."""
        if time.monotonic() + ahead > self._deadline:
            raise _OutOfTime

    def on_step_end(self, epoch: int, iteration: int, log: Mapping[str, float]) -> None:
        self.check()

    def on_epoch_end(self, epoch: Epoch, is_best: bool) -> None:
        self.check()

    def on_candidate(self, values: Mapping[str, Any], dev_accuracy: float | None) -> None:
        self.check()

    def on_prepare(self, what: str, done: int, of: int) -> None:
        self.check()

    def on_model_built(self, model: Model) -> None:
        self.check()


def choose_method(
    corpus: Corpus,
    split: Split,
    settings: RunSettings,
    how: AutoSettings,
    *,
    device: Device = "auto",
    callbacks: Sequence[Callback] = (),
    told: Callable[[Candidate], None] = lambda candidate: None,
) -> AutoChoice:
    """Return the method that is most accurate in cross-validation; among equals the earlier one.

    The labelled training and development rows are dealt to folds, each of which is measured once by a model of the
    others; test rows are not looked at. If the corpus has domains without labels, each domain with labels has them
    hidden in one of the folds, and what is reached there counts for as many domains as have none.

    Parameters
    ----------
    settings
        Of the run that the method is for; their method is left open.
    told
        Is given each candidate as it ends.
    """
    folds = cross_validation(corpus, split, how.folds, settings.training.seed)
    rows = np.concatenate([fold.test for fold in folds])
    if len(rows) < _FEWEST_ROWS:
        raise ConfigError(
            f"There are {counted(len(rows), 'labelled row')} to compare methods on; by fewer than {_FEWEST_ROWS} they "
            f"cannot be told apart. Name a method, such as --method {RECOMMENDED}."
        )
    of_each = [settings.model_copy(update={"method": name, "method_settings": {}}) for name in how.methods]
    for own in of_each:
        resolved_device(suited_device(own, device))  # a fault is best found before any is tried
    candidates: list[Candidate] = []
    began = time.monotonic()
    for own in of_each:
        started = time.monotonic()
        clock = _Clock(began + 60 * how.budget if candidates else np.inf)  # the first is the answer if all others fail
        accuracy = error = None
        try:
            right = _right_answers(corpus, folds, own, clock, device, callbacks)
            accuracy, error = _accuracy(corpus, folds, split, right)
        except _OutOfTime:
            for callback in callbacks:
                callback.on_train_end()
        except DataError as fault:
            raise ConfigError(
                f"The rows cannot be cross-validated in {how.folds} folds: {fault} Or name a method, such as --method "
                f"{RECOMMENDED}."
            ) from None
        candidates.append(Candidate(own.method, accuracy, error, round(time.monotonic() - started, 1)))
        told(candidates[-1])
    best = max(candidates, key=lambda candidate: candidate.accuracy or 0)
    rule = f"{how.folds} folds of {counted(len(rows), 'labelled row')}"
    if any(fold.labelled_domains(corpus) != split.labelled_domains(corpus) for fold in folds):
        rule += ", each domain's labels hidden in one"
    return AutoChoice(best.method, tuple(candidates), rule, _identity(corpus, split, settings, how))


def remembered_choice(
    folder: Path, corpus: Corpus, split: Split, settings: RunSettings, how: AutoSettings
) -> AutoChoice | None:
    """Return the choice that a stopped run has left in its folder, if it was for the same."""
    choice = read_choice(folder)
    return choice if choice and choice.fingerprint == _identity(corpus, split, settings, how) else None


def read_choice(folder: Path) -> AutoChoice | None:
    """Return the choice that led to the model in a folder, None if its method was given."""
    try:
        return TypeAdapter(AutoChoice).validate_python(json.loads((folder / CHOICE).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None


def keep_choice(folder: Path, choice: AutoChoice | None) -> None:
    """Write a choice beside the model that it is for; None takes one of an earlier model away."""
    if choice is None:
        (folder / CHOICE).unlink(missing_ok=True)
    else:
        write_json(folder / CHOICE, asdict(choice))


def _identity(corpus: Corpus, split: Split, settings: RunSettings, how: AutoSettings) -> str:
    any_method = settings.model_copy(update={"method": how.methods[0], "method_settings": {}})
    content = fingerprint(corpus, split, any_method) + how.model_dump_json()
    return hashlib.sha256(content.encode()).hexdigest()


def _right_answers(
    corpus: Corpus,
    folds: Sequence[Split],
    settings: RunSettings,
    clock: _Clock,
    device: Device,
    callbacks: Sequence[Callback],
) -> list[np.ndarray]:
    """Tell for the test rows of each fold whether they are answered rightly."""
    right: list[np.ndarray] = []
    began = time.monotonic()
    for fold in folds:
        so_far = len(right)
        clock.check(ahead=(time.monotonic() - began) / so_far * (len(folds) - so_far) if so_far else 0)
        with warnings.catch_warnings():  # that a fold has few rows is no news
            warnings.simplefilter("ignore", MultidomainWarning)
            seen = replace(fold, test=fold.test[:0])  # a class that is only measured is answered wrongly, no more
            where = suited_device(settings, device)
            model = train_model(corpus, seen, settings, device=where, callbacks=[clock, *callbacks]).model
            answers = model.predict(corpus.documents[fold.test], corpus.domains[fold.test])
        right.append(answers.astype(str) == corpus.labels[fold.test].astype(str))
    return right


def _accuracy(corpus: Corpus, folds: Sequence[Split], split: Split, right: Sequence[np.ndarray]) -> tuple[float, float]:
    """Return the mean over domains, and its standard error.

    Domains with labels and those without count as often as the corpus has them, measured where labels were to be seen
    and where they were hidden.
    """
    shown: dict[str, list[np.ndarray]] = {}
    hidden: dict[str, list[np.ndarray]] = {}
    for fold, correct in zip(folds, right, strict=True):
        domains = corpus.domains[fold.test]
        had_labels = fold.labelled_domains(corpus)
        for name in dict.fromkeys(domains):
            (shown if name in had_labels else hidden).setdefault(name, []).append(correct[domains == name])
    n_with = len(split.labelled_domains(corpus))
    parts = [(shown, n_with), (hidden, len(corpus.domain_names) - n_with)]
    parts = [(measured, count) for measured, count in parts if measured and count]
    total = sum(count for _, count in parts)
    accuracy = variance = 0.0
    for measured, count in parts:
        for pieces in measured.values():
            correct = np.concatenate(pieces)
            weight = count / total / len(measured)
            p = float(correct.mean())
            accuracy += weight * p
            variance += weight**2 * p * (1 - p) / len(correct)
    return accuracy, variance**0.5
