"""Explanation by occlusion: each word's contribution to the prediction, by replacing it with an unknown one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from multidomain.errors import ConfigError, DataError, Note, did_you_mean
from multidomain.explain.spans import Span, unknown_word, without_word, word_spans
from multidomain.model.model import Model, UnknownDomain

MAX_WORDS = 1_000
_ROWS_AT_A_TIME = 256
_WORDS_AT_A_TIME = 256 * 1_000  # bounds the memory of sequences, where every variant is as long as the text
_LOG_OF_ZERO = -104.0  # below the logarithm of every float32 but 0


@dataclass(frozen=True)
class WordContribution:
    """A word's contribution to the log-odds of a class, through the shared and through the private features.

    `text` stands at ``[start:end]`` of the explained text, in code points.
    """

    text: str
    start: int
    end: int
    shared: float
    private: float

    @property
    def total(self) -> float:
        """Return the total contribution of the word."""
        return self.shared + self.private


@dataclass(frozen=True)
class Explanation:
    """A prediction, and the contributions of the words.

    Attributes
    ----------
    text
        As it was given.
    domain
        Name of the domain as the model has it; None if it was not in training.
    classes, probabilities
        What `Model.predict_proba` says.
    target
        The class that is explained.
    words
        In the order of the text; at most the first `MAX_WORDS`.
    n_words
        How many words there are.
    notes
        Notes on the domain.
    """

    text: str
    domain: str | None
    classes: tuple[Any, ...]
    probabilities: tuple[float, ...]
    target: Any
    words: tuple[WordContribution, ...]
    n_words: int
    notes: tuple[Note, ...] = ()

    @property
    def answer(self) -> Any:
        """Return the most probable class."""
        return self.classes[int(np.argmax(self.probabilities))]

    def as_json(self) -> dict[str, Any]:
        """Return JSON-compatible values."""
        return {
            "text": self.text,
            "domain": self.domain,
            "classes": list(self.classes),
            "probabilities": list(self.probabilities),
            "target": self.target,
            "words": [
                {
                    "text": word.text,
                    "start": word.start,
                    "end": word.end,
                    "shared": word.shared,
                    "private": word.private,
                    "total": word.total,
                }
                for word in self.words
            ],
            "n_words": self.n_words,
        }


def explain(
    model: Model,
    text: str,
    domain: str | None = None,
    *,
    target: str | None = None,
    unknown_domain: UnknownDomain = "shared",
) -> Explanation:
    r"""Return the prediction for a text, with the contribution of each word.

    A word is occluded by replacing it with one that the model does not know; counts, tf-idf and scaling are then the
    model's own. The score of a document for class `c` is its log-odds

    .. math:: v = \log p_c - \log (1 - p_c)

    and :math:`v(S, P)` is the score if the shared features read the text with the word (`S` = 1) or without it (0), and
    the private features of the domain likewise (`P`). A word adds

    .. math::
        \mathit{total} &= v(1, 1) - v(0, 0) \\
        \mathit{shared} &= \tfrac12 [v(1, 1) - v(0, 1)] + \tfrac12 [v(1, 0) - v(0, 0)] \\
        \mathit{private} &= \tfrac12 [v(1, 1) - v(1, 0)] + \tfrac12 [v(0, 1) - v(0, 0)]

    `shared` and `private` are the Shapley values of a game of two players, so their sum is `total`. In a linear model
    of two classes that reads counts they are the weights of the n-grams that hold the word. Words are occluded one at
    a time, so their totals need not add up to the score.

    Parameters
    ----------
    domain
        As for `Model.predict_proba`; where it has no private features, `private` is 0.
    target
        The class `c`; by default the prediction.
    unknown_domain
        As for `Model.predict_proba`.

    Raises
    ------
    DataError
        The model reads vectors, or the domain was not in training and that is not allowed.
    ConfigError
        The model knows no such class.
    """
    vocabulary = model.features.vocabulary
    if vocabulary is None:
        raise DataError(
            "The model was trained on vectors, which have no words to explain.",
            "Train it on texts, or look at the weights of its columns.",
        )
    if target is not None and target not in model.classes:
        raise ConfigError(f"The model knows no class '{target}'.{did_you_mean(str(target), model.classes)}")
    resolved = model.resolve_domains([domain], 1, unknown_domain)
    probabilities = model.probabilities(model.encode([text]), resolved.codes)[0]
    code = None if np.ma.getmaskarray(resolved.codes)[0] else int(resolved.codes.data[0])
    c = int(probabilities.argmax()) if target is None else model.classes.index(target)
    spans = word_spans(text)
    chosen = spans[:MAX_WORDS]
    stand_in = model.features.stand_in or unknown_word(vocabulary)
    at_a_time = max(1, min(_ROWS_AT_A_TIME, _WORDS_AT_A_TIME // max(1, len(spans))))
    words: list[WordContribution] = []
    for first in range(0, len(chosen), at_a_time):
        chunk = chosen[first : first + at_a_time]
        shared, private = _contributions(model, text, chunk, stand_in, code, c)
        words += [
            WordContribution(text[start:end], start, end, float(by_shared), float(by_private))
            for (start, end), by_shared, by_private in zip(chunk, shared, private, strict=True)
        ]
    return Explanation(
        text=text,
        domain=None if code is None else model.domains[code],
        classes=model.classes,
        probabilities=tuple(map(float, probabilities)),
        target=model.classes[c],
        words=tuple(words),
        n_words=len(spans),
        notes=resolved.notes,
    )


def _contributions(
    model: Model, text: str, spans: Sequence[Span], stand_in: str, d: int | None, c: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the contributions of spans through the shared and through the private features, each of shape (spans,)."""
    variants = [text, *(without_word(text, span, stand_in) for span in spans)]
    x = model.encode(variants)
    # As often as there are variants: equal rows in batches of equal shape give equal bits, so that a part that does
    # not read a view adds exactly 0.
    whole, without = x[np.zeros(len(spans), dtype=np.int64)], x[1:]
    v_11, v_01, v_10, v_00 = (
        log_odds(model.method.calibrated_logits_of_views(shared, private, d), c)
        for shared, private in ((whole, whole), (without, whole), (whole, without), (without, without))
    )
    return ((v_11 - v_01) + (v_10 - v_00)) / 2, ((v_11 - v_10) + (v_01 - v_00)) / 2


def log_odds(logits: np.ndarray, c: int) -> np.ndarray:
    """Return log p_c - log(1 - p_c) of each row, shape (rows,), finite also where p_c rounds to 0 or 1."""
    # An ensemble's logits are logarithms of probabilities, of which one may be 0.
    logits = np.where(np.isneginf(logits), _LOG_OF_ZERO, logits.astype(np.float64))
    return logits[:, c] - logsumexp(np.delete(logits, c, axis=1), axis=1)
