"""What is asked of the model, and its answers with what it had to say."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from multidomain.errors import DataError, MultidomainWarning
from multidomain.explain.occlusion import explain
from multidomain.model.model import Model, UnknownDomain
from multidomain.serve.errors import ApiError
from multidomain.serve.workers import said_here


@dataclass(frozen=True)
class Question:
    """Texts of one request, with a domain or None for each."""

    texts: Sequence[str]
    domains: Sequence[str | None]
    unknown_domain: UnknownDomain


@dataclass(frozen=True)
class Answer:
    """Class probabilities of one text, the domain as the model has it, and what the model had to say about that."""

    probabilities: np.ndarray  # (classes,)
    domain: str | None
    warnings: tuple[str, ...]


def answers_without_domain(model: Model) -> bool:
    """Tell whether a model answers a text of no known domain; one that has no shared features refuses.

    It is asked once, before the server starts: to silence warnings as is done here is not safe between threads.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MultidomainWarning)
        try:
            model.predict_proba(["a text"], [None])
        except DataError:
            return False
    return True


class Predictor:
    """A model whose warnings are part of the answers."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def answer(self, questions: Sequence[Question]) -> list[list[Answer] | Exception]:
        """Return the answers of several requests, predicted together; one that is refused does not harm the others."""
        try:
            return self._answer_together(questions)
        except Exception as error:
            if len(questions) == 1:
                return [error]
            return [self.answer([question])[0] for question in questions]

    def explain(self, text: str, domain: str | None, target: str | None, unknown_domain: UnknownDomain) -> Any:
        """Return the explanation of one text as JSON, with the model's warnings."""
        name, said = self._resolved(domain, unknown_domain)
        with said_here():  # what there was to say has been said
            explained = explain(self.model, text, name, target=target)
        return {**explained.as_json(), **({"warnings": list(said)} if said else {})}

    def _answer_together(self, questions: Sequence[Question]) -> list[list[Answer] | Exception]:
        answers: list[list[Answer] | Exception] = []
        texts: list[str] = []
        names: list[tuple[str | None, tuple[str, ...]]] = []
        for question in questions:
            try:
                known = {d: self._resolved(d, question.unknown_domain) for d in dict.fromkeys(question.domains)}
            except ApiError as error:
                answers.append(error)
                continue
            answers.append([])
            texts += question.texts
            names += [known[d] for d in question.domains]
        if not texts:
            return answers
        with said_here():
            probabilities = self.model.predict_proba(texts, [name for name, _ in names])
        predicted = (Answer(p, *name) for p, name in zip(probabilities, names, strict=True))
        for question, answer in zip(questions, answers, strict=True):
            if isinstance(answer, list):
                answer += [next(predicted) for _ in question.texts]
        return answers

    def _resolved(self, domain: str | None, unknown_domain: UnknownDomain) -> tuple[str | None, tuple[str, ...]]:
        """Return the domain's name as the model has it, None if it was not in training, and what the model says."""
        with said_here() as said:
            try:
                codes = self.model.domain_codes([domain], 1, unknown_domain)
            except DataError as error:
                raise ApiError(422, "unknown_domain", str(error)) from None
        return None if np.ma.getmaskarray(codes)[0] else self.model.domains[int(codes.data[0])], tuple(said)
