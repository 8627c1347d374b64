"""What is asked of the model, and its predictions with notes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from multidomain.errors import DataError
from multidomain.explain.occlusion import explain
from multidomain.model.model import Model, UnknownDomain
from multidomain.serve.errors import ApiError, as_parameter


@dataclass(frozen=True)
class Question:
    """Texts of one request, with a domain or None for each."""

    texts: Sequence[str]
    domains: Sequence[str | None]
    unknown_domain: UnknownDomain


@dataclass(frozen=True)
class Answer:
    """Class probabilities of one text, the classes and domain as the model has them, and notes on the domain."""

    probabilities: np.ndarray  # (classes,)
    classes: tuple[Any, ...]
    domain: str | None
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class _Domain:
    """A domain as the model has it, None if it was not in training, and notes on it."""

    name: str | None
    notes: tuple[str, ...]


class Abandoned(Exception):
    """Nobody waits for the result any more."""


@dataclass
class _AbandonableModel(Model):
    """A model that encodes no more texts once nobody waits for the result."""

    abandoned: threading.Event

    def encode(self, documents: Any) -> csr_matrix:
        if self.abandoned.is_set():
            raise Abandoned
        return super().encode(documents)


class Predictor:
    """A model that serves several requests at once.

    Parameters
    ----------
    served
        Returns the model that is being served. What has begun ends with the model it began with.
    """

    def __init__(self, served: Callable[[], Model]) -> None:
        self._served = served

    def answer(self, questions: Sequence[Question]) -> list[list[Answer] | Exception]:
        """Return the predictions of several requests, as one batch; one invalid request does not affect the others."""
        try:
            return self._answer_together(questions)
        except Exception as error:
            if len(questions) == 1:
                return [error]
            return [self.answer([question])[0] for question in questions]

    def explain(
        self,
        text: str,
        domain: str | None,
        target: str | None,
        unknown_domain: UnknownDomain,
        abandoned: threading.Event,
    ) -> Any:
        """Return the explanation of one text as JSON, with notes on its domain.

        Parameters
        ----------
        abandoned
            Set when nobody waits for the explanation any more.

        Raises
        ------
        Abandoned
            That was set before the explanation was complete.
        """
        served = self._served()
        model = _AbandonableModel(served.method_name, served.method, served.features, served.classes, abandoned)
        resolved = _resolved(model, domain, unknown_domain)
        explained = explain(model, text, resolved.name, target=target)
        return {**explained.as_json(), **({"warnings": list(resolved.notes)} if resolved.notes else {})}

    def _answer_together(self, questions: Sequence[Question]) -> list[list[Answer] | Exception]:
        model = self._served()
        answers: list[list[Answer] | Exception] = []
        texts: list[str] = []
        domains: list[_Domain] = []
        for question in questions:
            try:
                known = {d: _resolved(model, d, question.unknown_domain) for d in dict.fromkeys(question.domains)}
            except ApiError as error:
                answers.append(error)
                continue
            answers.append([])
            texts += question.texts
            domains += [known[d] for d in question.domains]
        if not texts:
            return answers
        codes = model.resolve_domains([domain.name for domain in domains], len(texts)).codes
        probabilities = model.probabilities(model.encode(texts), codes)
        predicted = (Answer(p, model.classes, d.name, d.notes) for p, d in zip(probabilities, domains, strict=True))
        for question, answer in zip(questions, answers, strict=True):
            if isinstance(answer, list):
                answer += [next(predicted) for _ in question.texts]
        return answers


def _resolved(model: Model, domain: str | None, unknown_domain: UnknownDomain) -> _Domain:
    try:
        resolved = model.resolve_domains([domain], 1, unknown_domain)
    except DataError as error:
        raise ApiError(422, "unknown_domain", error.worded(as_parameter)) from None
    codes, notes = resolved.codes, tuple(note.worded(as_parameter) for note in resolved.notes)
    return _Domain(None if np.ma.getmaskarray(codes)[0] else model.domains[int(codes.data[0])], notes)
