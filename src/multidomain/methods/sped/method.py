"""The recommended method: words weighted by their evidence, and denoised words, with shared and private weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from pydantic import Field
from scipy.sparse import csr_matrix, vstack
from scipy.special import softmax
from torch import Tensor, nn

from multidomain.methods.base import FittedMethod, Task, Tried
from multidomain.methods.data import Examples, TrainingData
from multidomain.methods.linear.base import best_scale
from multidomain.methods.selection import fit_best, fit_first_good, mean_accuracy
from multidomain.methods.sped.priors import match_shares
from multidomain.methods.sped.views import TwoViews
from multidomain.nn.kernels.row_sum import row_sum
from multidomain.nn.sparse import SparseBatch
from multidomain.settings import Settings

_LENGTHS = (0.7, 0.0)
_COSTS = (0.1, 0.3, 1.0, 3.0)


class SPEDSettings(Settings):
    """The parts, each of which can be switched off by 0; `C` of None is chosen on development rows."""

    evidence: float = Field(0.5, ge=0, le=1, description="how much a word's evidence for a class weighs it; 0: not")
    private: float = Field(0.5, ge=0, description="how far private weights may go; 0: none")
    denoised: int = Field(500, ge=0, description="number of denoised features; 0: none")
    denoised_length: float | None = Field(
        None, ge=0, description="length of the denoised view beside 1 of the words; by default chosen, 0.7 or 0"
    )
    noise: float = Field(0.8, ge=0.01, lt=1, description="share of the words that denoising does without")
    denoised_words: int = Field(10_000, ge=1, description="the most frequent words or n-grams, which are denoised")
    rounds: int = Field(3, ge=0, description="of learning from its own answers to unlabelled text; 0: none")
    trust: float = Field(0.5, gt=0, description="what an own answer weighs beside a label")
    match_shares: bool = Field(True, description="let answers in domains without labels have the labels' class shares")
    C: float | None = Field(None, gt=0, description="weight of the loss; by default chosen on development rows")


@dataclass(frozen=True)
class _BothViews:
    """Rows as words and denoised, with their domains."""

    words: csr_matrix
    denoised: np.ndarray
    d: np.ndarray

    def __add__(self, other: _BothViews) -> _BothViews:
        return _BothViews(
            vstack([self.words, other.words], format="csr"),
            np.r_[self.denoised, other.denoised],
            np.r_[self.d, other.d],
        )


@dataclass(frozen=True)
class _Solution:
    """The weights of both views, shapes (1 + domains, columns or size, classes), shared ones first, and bias."""

    words: np.ndarray
    denoised: np.ndarray
    bias: np.ndarray

    def scores(self, rows: _BothViews) -> np.ndarray:
        scores = np.empty((len(rows.d), len(self.bias)))
        for d in np.unique(rows.d):
            here = rows.d == d
            scores[here] = rows.words[here] @ self.words[1 + d] + rows.denoised[here] @ self.denoised[1 + d]
        return scores + self.bias


class SPED(FittedMethod):
    r"""Shared and private weights of evidence-weighted and denoised words.

    A document has two views: its tf-idf weights multiplied by :math:`1 - \beta + \beta r_j`, where :math:`r_j` tells
    how unevenly word `j` is spread over the classes, and its main directions after the words have been restored from
    noise; each view is scaled to length 1 (together :math:`\phi`). A support vector machine reads both:

    .. math::
        \min \tfrac12 \|w\|^2 + \tfrac{1}{2\mu} \sum_d \|v_d\|^2
        + C \sum_i \omega_i \max(0, 1 - y_i \, \phi_i \cdot (w + v_{d_i}))^2

    first over the labelled rows, then in `R` rounds over the text of domains without labels too, with the answers of
    the round before as labels, which count :math:`\omega_i = \tau |2 p_i - 1|`. Before that the answers of each of
    these domains are shifted to the class shares of the labelled rows.

    Paper
    -----
    Evidence: S. Wang and C. D. Manning, ACL 2012. Denoising: M. Chen et al., ICML 2012. Shared and private weights:
    H. Daumé III, ACL 2007. Matched shares: D. Berthelot et al., ICLR 2020.

    Symbols
    -------
    evidence, private, trust, rounds : beta, mu, tau, R
    w, v_d : shared and private weights
    noise, denoised : probability that a word is left out, number of directions

    Departures
    ----------
    Evidence interpolates between plain and weighted tf-idf and has no sign. Denoising has one linear layer, learnt on
    the most frequent words and projected. Weights of an unlabelled domain are learnt from the method's own answers; a
    domain that is not in training has `w` alone. More than two classes are one against the rest.
    """

    settings_type = SPEDSettings
    settings: SPEDSettings

    def __init__(self, task: Task, settings: SPEDSettings):
        super().__init__(task, settings)
        copies, K = 1 + len(task.domains), task.n_classes
        self.views = TwoViews(task.n_inputs, settings.denoised_words, settings.denoised)
        self.weight = nn.Parameter(torch.zeros(copies, task.n_inputs, K), requires_grad=False)
        self.denoised_weight = nn.Parameter(torch.zeros(copies, self.views.size, K), requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(K), requires_grad=False)

    def fit(self, data: TrainingData, tried: Tried) -> dict[str, Any]:
        s, K = self.settings, self.task.n_classes
        self.views.fit(data.labelled, data.text, K, s.evidence, s.noise)
        labelled, dev = self._rows(data.labelled), self._rows(data.dev)
        targets = np.eye(K)[data.labelled.y]
        weight = np.ones(len(targets)) if data.labelled.weight is None else data.labelled.weight
        # Development rows of other domains are a reason to depart from what is preferred only if they say so clearly.
        spoken_for = len(data.dev) > 0 and len(self.task.labelled) == len(self.task.domains)
        weights, chosen = (fit_best if spoken_for else fit_first_good)(
            self._candidates(),
            lambda values: self._solve(labelled, targets, values["C"] * weight, values["length"]),
            lambda fitted: mean_accuracy(fitted.scores(dev), data.dev),
            tried,
            n_dev=len(data.dev),
        )
        text = self._rows(data.text.where(~np.isin(data.text.d, self.task.labelled)))
        everything, cost = labelled + text, chosen["C"] * np.r_[weight, np.full(len(text.d), s.trust)]
        for number in range(1, s.rounds + 1) if len(text.d) else ():
            answers = self._answers(weights, text, dev, data)
            weights = self._solve(everything, np.r_[targets, answers], cost, chosen["length"])
            tried({"round": number, **chosen}, mean_accuracy(weights.scores(dev), data.dev) if len(data.dev) else None)
        self._keep(weights, _scale(weights, dev, data.dev))
        return chosen

    def _candidates(self) -> list[dict[str, float]]:
        s = self.settings
        lengths = _LENGTHS if s.denoised_length is None else (s.denoised_length,)
        costs = _COSTS if s.C is None else (s.C,)
        # Without the denoised view the same C regularises less.
        return [{"length": length, "C": C} for length in (lengths if s.denoised else (0.0,)) for C in costs]

    def _rows(self, examples: Examples) -> _BothViews:
        return _BothViews(*self.views.of(examples), examples.d)

    def _solve(self, rows: _BothViews, targets: np.ndarray, cost: np.ndarray, length: float) -> _Solution:
        """Solve for targets that are probabilities, shape (rows, classes); an answer of 1/2 counts for nothing."""
        from multidomain.methods.sped.dual_solver import (
            solve_two_views,  # here: prediction must not wait for a compiler
        )

        denoised = rows.denoised * np.float32(length) if length else rows.denoised[:, :0]
        (copies, columns, K), size = self.weight.shape, denoised.shape[1]
        of_words: np.ndarray = np.empty((copies, columns, K), np.float32)
        of_denoised: np.ndarray = np.zeros((copies, self.views.size, K))
        bias: np.ndarray = np.empty(K)
        for c in [1] if K == 2 else range(K):
            y, sureness = np.where(targets[:, c] > 0.5, 1, -1), np.abs(2 * targets[:, c] - 1).clip(1e-6)
            w, u, bias[c] = solve_two_views(
                rows.words, denoised, rows.d, y, cost * sureness, copies - 1, self.settings.private
            )
            for part in (w, u):
                part[1:] += part[:1]
            of_words[..., c], of_denoised[:, :size, c] = w, u * length
        if K == 2:  # the scores -s/2 and s/2
            for part in (of_words, of_denoised, bias):
                part[..., 1] /= 2
                part[..., 0] = -part[..., 1]
        return _Solution(of_words, of_denoised, bias)

    def _answers(self, weights: _Solution, text: _BothViews, dev: _BothViews, data: TrainingData) -> np.ndarray:
        """Class probabilities of text, in domains without labels shifted to the class shares of the labelled rows."""
        logits = _scale(weights, dev, data.dev) * weights.scores(text)
        if self.settings.match_shares:
            assert data.labelled.y is not None
            shares = np.bincount(data.labelled.y, data.labelled.weight, minlength=self.task.n_classes)
            shares = shares / shares.sum()
            for d in np.unique(text.d):
                logits[text.d == d] = match_shares(logits[text.d == d], shares)
        return softmax(logits, axis=1)

    def _keep(self, weights: _Solution, scale: float) -> None:
        self.weight.copy_(torch.from_numpy(weights.words * scale))
        self.denoised_weight.copy_(torch.from_numpy(weights.denoised * scale))
        self.bias.copy_(torch.from_numpy(weights.bias * scale))

    def logits(self, x: SparseBatch, d: int | None) -> Tensor:
        copy = 0 if d is None else 1 + d
        return self._linear(x, self.weight[copy], self.denoised_weight[copy]) + self.bias

    def logits_of_views(self, shared: SparseBatch, private: SparseBatch, d: int | None) -> Tensor:
        common = self.logits(shared, None)
        if d is None:
            return common
        own = (weight[1 + d] - weight[0] for weight in (self.weight, self.denoised_weight))
        return common + self._linear(private, *own)

    def _linear(self, x: SparseBatch, weight: Tensor, denoised_weight: Tensor) -> Tensor:
        words, denoised = self.views(x)
        return row_sum(words, weight) + denoised @ denoised_weight


def _scale(weights: _Solution, dev: _BothViews, examples: Examples) -> float:
    return best_scale(weights.scores(dev), examples) if len(examples) else 1.0
