"""Ensembles: several models as one, by the mean of their probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from scipy.special import log_softmax, softmax

from multidomain.errors import ConfigError, did_you_mean
from multidomain.features.sparse_rows import selected
from multidomain.methods.base import ArraySpec, FitContext, Method, Requirements
from multidomain.methods.data import TrainingData
from multidomain.methods.history import History
from multidomain.methods.registry import METHODS, method_entry, register
from multidomain.methods.task import SavedTask, Task
from multidomain.settings import Settings, listed

_PLAIN_SUM_ROWS = 20.0  # that weights of 1 are worth, as uncalibrated logits are for temperatures
_LEAST = -100.0  # of a log-probability


class Member(Settings):
    """A member of an ensemble: a method to be trained, or the folder of a saved model.

    Attributes
    ----------
    method, settings
        Name in the registry, and what differs from its defaults.
    folder
        A saved model; then `method` and `settings` are its own.
    task, start
        Of a member that is trained: its task and the first of its columns.
    """

    method: str = ""
    settings: dict[str, Any] = Field(default_factory=dict)
    folder: str | None = None
    task: SavedTask | None = None
    start: int = 0

    @model_validator(mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        """Read a name as a method or, if there is none of that name, as a folder."""
        if not isinstance(value, str):
            return value
        if value in METHODS:
            return {"method": value}
        with suppress(OSError, ValueError):  # of a name that no file can have
            if Path(value).is_dir():
                return {"folder": value}
        raise ValueError(f"neither a method nor the folder of a model.{did_you_mean(value, METHODS)}")

    @model_validator(mode="after")
    def _can_be_had(self) -> Self:
        if bool(self.method) == bool(self.folder):
            raise ValueError("a member is a method or the folder of a model, one of the two")
        if self.method and self.task is None:
            method_entry(self.method).settings(self.settings)
        return self


def _default_members() -> tuple[Member, ...]:
    return Member(method="man-nll"), Member(method="fa-lr")


class EnsembleSettings(Settings):
    """What is joined."""

    members: tuple[Member, ...] = Field(
        min_length=2, default_factory=_default_members, description="methods, or folders of saved models"
    )
    combine: Literal["probabilities", "logits"] = Field(
        "probabilities",
        description="the mean of the members' probabilities, or a sum of their log-odds with weights fitted on the dev "
        "set",
    )

    @field_validator("members", mode="before")
    @classmethod
    def _one_or_more(cls, value: Any) -> Any:
        return listed(value)


@register(
    "ensemble",
    "several methods or saved models (setting 'members') by the mean of their probabilities",
    paper="Hansen and Salamon 1990, Neural Network Ensembles",
)
class Ensemble(Method):
    r"""Several models as one; a document's probabilities are the mean of theirs.

    .. math:: p(c \mid x, d) = \frac{1}{M} \sum_{m=1}^{M} p_m(c \mid x, d)

    With ``combine="logits"`` they are proportional to :math:`\prod_m p_m(c \mid x, d)^{w_m}`: a member that is certain
    then counts for more than one that is not. The weights :math:`w_m \ge 0` maximise the likelihood of the dev labels
    (stacking), so they also calibrate the sum; without a dev set they are 1.

    Members may be of any method and read different features; those that do not know a domain predict from their shared
    features. They are trained one by one on the same rows, or read from folders.

    Paper
    -----
    L. K. Hansen and P. Salamon. Neural Network Ensembles. IEEE Transactions on Pattern Analysis and Machine
    Intelligence, 1990. Chen and Cardie 2018 expect it of MAN-NLL with MAN-L2 and leave it untried. Of log-odds: G. E.
    Hinton. Products of Experts. ICANN 1999.

    Symbols
    -------
    members : the M models
    w : member_weight

    Departures
    ----------
    None; members of different methods may be joined too.

    Examples
    --------
    >>> from multidomain import MultiDomainClassifier
    >>> texts = ["a fine pan", "a poor pan", "a fine book", "a poor book"] * 12
    >>> labels, domains = ["good", "bad"] * 24, ["pans", "pans", "books", "books"] * 12
    >>> model = MultiDomainClassifier("ensemble", method_settings={"members": ["fa-lr", "sped"]}, random_state=0)
    >>> model.fit(texts, labels, domains=domains).predict(["such a fine pan"], domains=["pans"])
    array(['good'], dtype='<U4')
    """

    settings_type = EnsembleSettings
    settings: EnsembleSettings

    def __init__(self, task: Task, settings: EnsembleSettings):
        super().__init__(task, settings)
        self.members: list[Method] = []
        self.member_weight = np.ones(len(settings.members), dtype=np.float32)
        for member in settings.members:
            if member.task is None or member.task.n_classes != task.n_classes:
                raise ConfigError("Members are trained first, for the same classes, and then joined.")
            entry = method_entry(member.method)
            own_settings = entry.recorded_settings(member.settings)
            self.members.append(entry.method.untrained(member.task.restored(), own_settings))

    def arrays(self) -> dict[str, ArraySpec]:
        weighs = self.settings.combine == "logits"
        return super().arrays() | ({"member_weight": ArraySpec((len(self.settings.members),))} if weighs else {})

    def parts(self) -> Mapping[str, Method]:
        return {f"members.{i}": member for i, member in enumerate(self.members)}

    def to(self, device: Any) -> Self:
        for member in self.members:
            member.to(device)
        return self

    @classmethod
    def requirements(cls, settings: EnsembleSettings) -> Requirements:
        """Return the requirements of the members; those of saved models are unknown before they are read."""
        asks_for = []
        for member in settings.members:
            if member.method:
                entry = method_entry(member.method)
                is_trained = member.task is not None
                own = entry.recorded_settings(member.settings) if is_trained else entry.settings(member.settings)
                asks_for.append(entry.method.requirements(own))
        return Requirements(
            featurizer=None,
            devices=(),
            unlabelled_text=True,
            in_epochs=any(one.in_epochs for one in asks_for),
            is_random=any(one.is_random for one in asks_for),
            unseen_domains=all(one.unseen_domains for one in asks_for),
            shared_features=bool(asks_for) and all(one.shared_features for one in asks_for),
            calibrated=True,
            members=settings.members,
        )

    @classmethod
    def join(
        cls, members: Sequence[tuple[str, Method]], starts: Sequence[int], n_inputs: int, settings: EnsembleSettings
    ) -> Self:
        """Return trained methods, each with its name in the registry and the first of its columns, as one."""
        methods = [method for _, method in members]
        domains = tuple(dict.fromkeys(name for method in methods for name in method.task.domains))
        labelled = {method.task.domains[d] for method in methods for d in method.task.labelled}
        described = tuple(
            Member(
                method=name,
                settings=method.settings.model_dump(mode="json"),
                task=SavedTask(**asdict(method.task)),
                start=start,
            )
            for (name, method), start in zip(members, starts, strict=True)
        )
        task = Task(
            n_inputs, methods[0].task.n_classes, domains, tuple(d for d, name in enumerate(domains) if name in labelled)
        )
        ensemble = cls(task, EnsembleSettings(members=described, combine=settings.combine))
        ensemble.members = methods
        return ensemble

    def fit(self, data: TrainingData, context: FitContext) -> History:
        """Fit the weights of members, if they have some: members themselves are trained before they are joined."""
        if self.settings.combine == "probabilities" or not len(data.dev):
            return History()
        assert data.dev.y is not None
        found = np.zeros((len(self.members), len(data.dev), self.task.n_classes))
        for code, name in enumerate(data.task.domains):
            rows = np.flatnonzero(data.dev.d == code)
            own = self.task.domains.index(name) if name in self.task.domains else None  # no member may know it
            found[:, rows] = self._log_odds(selected(data.dev.x, rows), own)
        self.member_weight = stacking_weights(found, data.dev.y).astype(np.float32)
        names = [f"{number} {member.method}" for number, member in enumerate(self.settings.members, start=1)]
        weights = self.member_weight.tolist()
        return History(chosen={f"weight of {n}": round(w, 3) for n, w in zip(names, weights, strict=True)})

    def logits(self, x: csr_matrix, d: int | None) -> np.ndarray:
        if self.settings.combine == "logits":
            return self._weighted(self._log_odds(x, d))
        answers = [member.calibrated_logits(own, self._code(member, d)) for member, own in self._with_rows(x)]
        return _mean_probability(answers)

    def _log_odds(self, x: csr_matrix, d: int | None) -> list[np.ndarray]:
        """Return the log-probabilities of the members, each about its mean, shape (rows, classes)."""
        return [_centred(member.calibrated_logits(own, self._code(member, d))) for member, own in self._with_rows(x)]

    def _weighted(self, log_odds: Sequence[np.ndarray]) -> np.ndarray:
        return np.tensordot(self.member_weight, np.stack(log_odds), axes=1)

    def logits_of_views(self, shared: csr_matrix, private: csr_matrix, d: int | None) -> np.ndarray:
        answers = [
            member.calibrated_logits_of_views(own, own_private, self._code(member, d))
            for (member, own), (_, own_private) in zip(self._with_rows(shared), self._with_rows(private), strict=True)
        ]
        if self.settings.combine == "logits":
            return self._weighted([_centred(of_member) for of_member in answers])
        return _mean_probability(answers)

    def shared_features(self, x: csr_matrix) -> np.ndarray:
        """Return the shared features of all members side by side."""
        return np.concatenate([member.shared_features(own) for member, own in self._with_rows(x)], axis=1)

    def _code(self, member: Method, d: int | None) -> int | None:
        """Return a member's own code of a domain, None if it does not know it."""
        name = None if d is None else self.task.domains[d]
        return member.task.domains.index(name) if name in member.task.domains else None

    def _with_rows(self, x: csr_matrix) -> list[tuple[Method, csr_matrix]]:
        """Return the members, each with its own columns; values stay in their order, which is that of tokens."""
        starts = [member.start for member in self.settings.members]
        return [
            (method, columns_of(x, start, start + method.task.n_inputs))
            for method, start in zip(self.members, starts, strict=True)
        ]


def columns_of(x: csr_matrix, start: int, stop: int) -> csr_matrix:
    """Return a range of columns; unlike scipy's slices, the values of a row keep their order."""
    kept = (x.indices >= start) & (x.indices < stop)
    offset = np.r_[0, np.cumsum(kept)]
    return csr_matrix((x.data[kept], x.indices[kept] - start, offset[x.indptr]), shape=(x.shape[0], stop - start))


def stacking_weights(log_odds: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the weights of models, none below 0, whose weighted sum gives labels the highest likelihood.

    Weights of 1 count for some rows: members have been selected on the dev set too, and a small one knows little more.

    Parameters
    ----------
    log_odds
        Shape (models, rows, classes).
    y
        Class codes of the rows.
    """
    of_label = np.eye(log_odds.shape[2])[y]

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        logits = np.tensordot(weights, log_odds, axes=1)
        off = softmax(logits, axis=1) - of_label
        value = -(log_softmax(logits, axis=1) * of_label).sum() + 0.5 * _PLAIN_SUM_ROWS * np.square(weights - 1).sum()
        return value, (log_odds * off).sum(axis=(1, 2)) + _PLAIN_SUM_ROWS * (weights - 1)

    start = np.full(len(log_odds), 1 / len(log_odds))
    return minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(start)).x


def _centred(logits: np.ndarray) -> np.ndarray:
    """Return log-probabilities about their mean; those of an impossible class are as low as a float32 shows."""
    bounded = np.maximum(log_softmax(logits.astype(np.float64), axis=1), _LEAST)
    return bounded - bounded.mean(axis=1, keepdims=True)


def _mean_probability(logits: Sequence[np.ndarray]) -> np.ndarray:
    with np.errstate(divide="ignore"):  # a probability may round to 0
        return np.log(np.mean([softmax(of_member, axis=1) for of_member in logits], axis=0))
