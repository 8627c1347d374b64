"""The recommended method: an SVM with shared and private weights on log-count-ratio tf-idf and denoised features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from pydantic import Field
from scipy.sparse import csr_matrix, vstack
from scipy.special import softmax
from torch import Tensor, nn

from multidomain.methods.base import FitContext, Method, Requirements
from multidomain.methods.calibration import best_scale
from multidomain.methods.data import Examples, TrainingData
from multidomain.methods.history import History
from multidomain.methods.registry import RECOMMENDED, register
from multidomain.methods.selection import dev_accuracy, fit_best, fit_first_good
from multidomain.methods.sped.priors import match_shares
from multidomain.methods.sped.views import TwoViews
from multidomain.methods.task import Task
from multidomain.metrics import two_class_scores
from multidomain.nn.kernels.row_sum import row_sum
from multidomain.nn.sparse import SparseBatch
from multidomain.settings import Settings

_LENGTHS = (0.7, 0.0)
_COSTS = (0.1, 0.3, 1.0, 3.0)


class SPEDSettings(Settings):
    """The parts, each of which 0 switches off; `C` of None is chosen on the dev set."""

    evidence: float = Field(0.5, ge=0, le=1, description="weight of log-count ratios in the tf-idf; 0: none")
    private: float = Field(0.5, ge=0, description="variance of private relative to shared weights; 0: none")
    denoised: int = Field(500, ge=0, description="number of denoised features; 0: none")
    denoised_length: float | None = Field(
        None, ge=0, description="norm of the denoised view (words: 1); by default 0.7 or 0, chosen on the dev set"
    )
    noise: float = Field(0.8, ge=0.01, lt=1, description="probability that noise drops a word")
    denoised_words: int = Field(10_000, ge=1, description="number of most frequent n-grams to denoise")
    rounds: int = Field(3, ge=0, description="rounds of self-training on pseudo-labels; 0: none")
    pseudo_label_weight: float = Field(0.5, gt=0, description="weight of a pseudo-label beside a label")
    match_shares: bool = Field(True, description="align pseudo-labels to the labelled class prior")
    C: float | None = Field(None, gt=0, description="weight of the loss; by default chosen on the dev set")


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


@register(
    RECOMMENDED,
    "SVM with shared and private weights on log-count-ratio tf-idf and denoised features, with self-training",
    paper="Wang and Manning 2012, Chen et al. 2012 and Daumé III 2007 put together; see its documentation",
)
class SPED(Method):
    r"""SVM with shared and private weights on log-count-ratio tf-idf and denoised features, with self-training.

    A document has two views: its tf-idf weights multiplied by :math:`1 - \beta + \beta r_j`, where :math:`r_j` tells
    how unevenly word `j` is spread over the classes, and its main directions after the words have been restored from
    noise; each view is scaled to length 1 (together :math:`\phi`). A support vector machine reads both:

    .. math::
        \min \tfrac12 \|w\|^2 + \tfrac{1}{2\mu} \sum_d \|v_d\|^2
        + C \sum_i \omega_i \max(0, 1 - y_i \, \phi_i \cdot (w + v_{d_i}))^2

    first over the labelled rows, then in `R` rounds also over the text of unlabelled domains, with the predictions of
    the previous round as pseudo-labels of weight :math:`\omega_i = \tau |2 p_i - 1|`. The pseudo-labels of each of
    these domains are first aligned to the class prior of the labelled rows.

    Paper
    -----
    Evidence: S. Wang and C. D. Manning, ACL 2012. Denoising: M. Chen et al., ICML 2012. Shared and private weights:
    H. Daumé III, ACL 2007. Aligned class prior: D. Berthelot et al., ICLR 2020.

    Symbols
    -------
    evidence, private, pseudo_label_weight, rounds : beta, mu, tau, R
    w, v_d : shared and private weights
    noise, denoised : probability that a word is dropped, number of principal directions

    Departures
    ----------
    Evidence interpolates between plain and weighted tf-idf and has no sign. Denoising has one linear layer, learnt on
    the most frequent words and projected. Weights of an unlabelled domain are learnt from pseudo-labels alone; a
    domain that is not in training has `w` alone. More than two classes are one against the rest.

    Examples
    --------
    >>> from multidomain import MultiDomainClassifier
    >>> texts = ["a fine pan", "a poor pan", "a fine book", "a poor book"] * 12
    >>> labels, domains = ["good", "bad"] * 24, ["pans", "pans", "books", "books"] * 12
    >>> labels[2::4] = labels[3::4] = [None] * 12  # nobody has labelled the books
    >>> model = MultiDomainClassifier("sped", random_state=0)
    >>> model.fit(texts, labels, domains=domains).predict(["such a fine pan"], domains=["pans"])
    array(['good'], dtype=object)
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

    @classmethod
    def requirements(cls, settings: SPEDSettings) -> Requirements:
        features = {"weighting": "tfidf", "max_features": 500_000, "ngram_range": (1, 3)}
        return Requirements(features=features, unlabelled_text=True)

    def fit(self, data: TrainingData, context: FitContext) -> History:
        s, K = self.settings, self.task.n_classes
        self.views.fit(data.labelled, data.text, K, s.evidence, s.noise)
        labelled, dev = self._rows(data.labelled), self._rows(data.dev)
        targets = np.eye(K)[data.labelled.y]
        weight = np.ones(len(targets)) if data.labelled.weight is None else data.labelled.weight
        # The dev set of other domains overrides the preferred value only by a clear margin.
        spoken_for = len(data.dev) > 0 and len(self.task.labelled) == len(self.task.domains)
        weights, chosen = (fit_best if spoken_for else fit_first_good)(
            self._candidates(),
            lambda values: self._solve(labelled, targets, values["C"] * weight, values["length"]),
            lambda fitted: dev_accuracy(fitted.scores(dev), data.dev),
            context,
            n_dev=len(data.dev),
        )
        text = self._rows(data.text.select(~np.isin(data.text.d, self.task.labelled)))
        everything, cost = labelled + text, chosen["C"] * np.r_[weight, np.full(len(text.d), s.pseudo_label_weight)]
        for number in range(1, s.rounds + 1) if len(text.d) else ():
            answers = self._answers(weights, text, dev, data)
            weights = self._solve(everything, np.r_[targets, answers], cost, chosen["length"])
            reached = dev_accuracy(weights.scores(dev), data.dev) if len(data.dev) else None
            context.report({"round": number, **chosen}, reached)
        self._keep(weights, _scale(weights, dev, data.dev))
        return History(chosen=chosen)

    def _candidates(self) -> list[dict[str, float]]:
        s = self.settings
        lengths = _LENGTHS if s.denoised_length is None else (s.denoised_length,)
        costs = _COSTS if s.C is None else (s.C,)
        # Without the denoised view the same C regularises less.
        return [{"length": length, "C": C} for length in (lengths if s.denoised else (0.0,)) for C in costs]

    def _rows(self, examples: Examples) -> _BothViews:
        return _BothViews(*self.views.of(examples), examples.d)

    def _solve(self, rows: _BothViews, targets: np.ndarray, cost: np.ndarray, length: float) -> _Solution:
        """Solve for soft targets, shape (rows, classes); a probability of 1/2 has no weight."""
        from multidomain.methods.sped.dual_solver import (
            solve_two_views,  # imported here: prediction must not load the compiler
        )

        denoised = rows.denoised * np.float32(length) if length else rows.denoised[:, :0]
        (copies, _, K), size = self.weight.shape, denoised.shape[1]
        of_words, of_denoised, biases = [], [], []
        for c in [1] if K == 2 else range(K):
            y, sureness = np.where(targets[:, c] > 0.5, 1, -1), np.abs(2 * targets[:, c] - 1).clip(1e-6)
            w, u, bias = solve_two_views(
                rows.words, denoised, rows.d, y, cost * sureness, copies - 1, self.settings.private
            )
            for part in (w, u):
                part[1:] += part[:1]
            of_words.append(w)
            of_denoised.append(np.zeros((copies, self.views.size)))
            of_denoised[-1][:, :size] = u * length
            biases.append(np.array(bias))
        parts = (of_words, of_denoised, biases)
        if K == 2:
            return _Solution(*(two_class_scores(part[0]) for part in parts))
        return _Solution(*(np.stack(part, axis=-1) for part in parts))

    def _answers(self, weights: _Solution, text: _BothViews, dev: _BothViews, data: TrainingData) -> np.ndarray:
        """Class probabilities of text; in unlabelled domains aligned to the class prior of the labelled rows."""
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
    return best_scale(weights.scores(dev), examples)
