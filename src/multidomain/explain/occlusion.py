"""What each word of a text adds to the answer: leave it out, and see what the model says then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from multidomain.errors import ConfigError, DataError, did_you_mean
from multidomain.explain.spans import Span, left_out, pieces_of, unknown_word
from multidomain.model.model import Model, UnknownDomain
from multidomain.model.prediction import predicted_probabilities
from multidomain.nn.sparse import SparseMatrix

MOST_PIECES = 1_000
_ROWS_AT_A_TIME = 256
_WORDS_AT_A_TIME = 256 * 1_000  # bounds the memory of sequences, where every variant is as long as the text
_LOG_OF_ZERO = -104.0  # below the logarithm of every float32 but 0


@dataclass(frozen=True)
class WordContribution:
    """What a word adds to the log-odds of a class, through the shared and through the private features.

    `text` stands at ``[start:end]`` of the explained text, in code points.
    """

    text: str
    start: int
    end: int
    shared: float
    private: float

    @property
    def total(self) -> float:
        """Return what the word adds in all."""
        return self.shared + self.private


@dataclass(frozen=True)
class Explanation:
    """An answer, and what the words of the text have to do with it.

    Attributes
    ----------
    text
        As it was given.
    domain
        Name of the domain as the model has it; None if it was not in training.
    classes, probabilities
        What `Model.predict_proba` says.
    target
        The class that the words speak for or against.
    words
        In the order of the text; at most the first `MOST_PIECES`.
    n_pieces
        How many words there are.
    """

    text: str
    domain: str | None
    classes: tuple[Any, ...]
    probabilities: tuple[float, ...]
    target: Any
    words: tuple[WordContribution, ...]
    n_pieces: int

    @property
    def answer(self) -> Any:
        """Return the most probable class."""
        return self.classes[int(np.argmax(self.probabilities))]

    def as_json(self) -> dict[str, Any]:
        """Return what JSON can hold."""
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
            "n_pieces": self.n_pieces,
        }


def explain(
    model: Model,
    text: str,
    domain: str | None = None,
    *,
    target: str | None = None,
    unknown_domain: UnknownDomain = "shared",
) -> Explanation:
    r"""Return the answer to a text, with what each word adds to it.

    A word is left out by writing in its place one that the model does not know; counts, tf-idf and scaling are then the
    model's own. The score of a document for class `c` is its log-odds

    .. math:: v = \log p_c - \log (1 - p_c)

    and :math:`v(S, P)` is the score if the shared features read the text with the word (`S` = 1) or without it (0), and
    the private features of the domain likewise (`P`). A word adds

    .. math::
        \mathit{total} &= v(1, 1) - v(0, 0) \\
        \mathit{shared} &= \tfrac12 [v(1, 1) - v(0, 1)] + \tfrac12 [v(1, 0) - v(0, 0)] \\
        \mathit{private} &= \tfrac12 [v(1, 1) - v(1, 0)] + \tfrac12 [v(0, 1) - v(0, 0)]

    `shared` and `private` are the Shapley values of a game of two players, so their sum is `total`. In a linear model
    of two classes that reads counts they are the weights of the n-grams that hold the word. Of several words each is
    left out alone, so that their totals need not add up to the score.

    Parameters
    ----------
    domain
        As for `Model.predict_proba`; where it has no private features, `private` is 0.
    target
        The class `c`; by default the answer.
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
            "The model was trained on vectors, which have no words to explain. Train it on texts, or look at the "
            "weights of its columns."
        )
    if target is not None and target not in model.classes:
        raise ConfigError(f"The model knows no class '{target}'.{did_you_mean(str(target), model.classes)}")
    codes = model.domain_codes([domain], 1, unknown_domain)
    x = SparseMatrix(model.features.transform([text]), model.device)
    probabilities = predicted_probabilities(model.method, x, codes)[0]
    code = None if np.ma.getmaskarray(codes)[0] else int(codes.data[0])
    c = int(probabilities.argmax()) if target is None else model.classes.index(target)
    pieces = pieces_of(text)
    chosen = pieces[:MOST_PIECES]
    stand_in = unknown_word(vocabulary)
    at_a_time = max(1, min(_ROWS_AT_A_TIME, _WORDS_AT_A_TIME // max(1, len(pieces))))
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
        n_pieces=len(pieces),
    )


def _contributions(
    model: Model, text: str, pieces: Sequence[Span], stand_in: str, d: int | None, c: int
) -> tuple[Tensor, Tensor]:
    """Return what pieces add through the shared and through the private features, each of shape (pieces,)."""
    variants = [text, *(left_out(text, piece, stand_in) for piece in pieces)]
    x = SparseMatrix(model.features.transform(variants), model.device)
    # As often as there are variants: equal rows in batches of equal shape give equal bits, so that a part that does
    # not read a view adds exactly 0.
    whole = x.take(np.zeros(len(pieces), dtype=np.int64))
    without = x.take(np.arange(1, len(variants)))
    with torch.inference_mode():
        v_11, v_01, v_10, v_00 = (
            log_odds(model.method.logits_of_views(shared, private, d), c)
            for shared, private in ((whole, whole), (without, whole), (whole, without), (without, without))
        )
    return ((v_11 - v_01) + (v_10 - v_00)) / 2, ((v_11 - v_10) + (v_01 - v_00)) / 2


def log_odds(logits: Tensor, c: int) -> Tensor:
    """Return log p_c - log(1 - p_c) of each row, shape (rows,), finite also where p_c rounds to 0 or 1."""
    # An ensemble's logits are logarithms of probabilities, of which one may be 0.
    logits = logits.double().masked_fill(logits.isneginf(), _LOG_OF_ZERO)
    others = [other for other in range(logits.shape[1]) if other != c]
    return logits[:, c] - torch.logsumexp(logits[:, others], dim=1)
