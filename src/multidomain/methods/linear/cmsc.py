"""Collaborative multi-domain sentiment classification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import Field
from scipy.spatial.distance import jensenshannon

from multidomain.errors import ConfigError, quoted
from multidomain.features.lexicon import read_lexicon
from multidomain.methods.base import FitContext, Requirements
from multidomain.methods.data import Examples, TrainingData
from multidomain.methods.linear.base import LinearMethod, Weights
from multidomain.methods.linear.graph_solver import RIDGE_GRID, TiedWeights, laplacian
from multidomain.methods.registry import register
from multidomain.methods.task import Task
from multidomain.objectives.margin import Loss
from multidomain.settings import Settings


class CMSCSettings(Settings):
    """Settings; values of None are chosen on the dev set."""

    loss: Loss = Field("lr", description="ls, svm or lr")
    ridge: float | None = Field(None, gt=0, description="penalty on weights; by default chosen on the dev set")
    beta: float | None = Field(None, ge=0, description="weight of the graph; by default chosen on the dev set")
    alpha: float | None = Field(None, ge=0, description="weight of the lexicon; by default chosen on the dev set")
    lexicon: str | None = Field(None, description="vader, or a file of words and values; by default none")
    positive: str = Field("positive", description="class that positive words of the lexicon indicate")
    negative: str = Field("negative", description="class that negative words of the lexicon indicate")


def _entry(loss: Loss, what: str) -> dict[str, Any]:
    return {
        "summary": f"{what}, global weights and a difference for each domain, alike in similar domains",
        "paper": "Wu and Huang 2015, Collaborative Multi-Domain Sentiment Classification",
        "fixed": {"loss": loss},
        "vocabulary": "for a lexicon, if one is given",
    }


@register("cmsc-ls", **_entry("ls", "least squares"))
@register("cmsc-svm", **_entry("svm", "support vector machine"))
@register("cmsc-lr", **_entry("lr", "logistic regression"))
class CMSC(LinearMethod):
    r"""A global model plus a difference per domain; similar domains have similar differences.

    .. math::
        \min_{w, w_d} \sum_{d \in \Delta_L} \frac{1}{n_d} \sum_i \ell(y_i, x_i \cdot (w + w_d))
        - \alpha\, p \cdot w + \beta \sum_{d < e} S_{de} \|w_d - w_e\|^2
        + \eta \|w\|^2 + \eta \sum_d \|w_d\|^2

    with the squared error (``cmsc-ls``), the squared hinge (``cmsc-svm``) or the logistic loss (``cmsc-lr``).
    :math:`S_{de}` is 1 minus the Jensen-Shannon divergence (in bits) of two domains' word distributions, over all text;
    :math:`p_j` is the lexicon score of word `j`, from -1 to 1, and 0 for words not in the lexicon. A domain without
    labels gets its difference from similar domains; `w` alone predicts for domains that were not in training.
    Solved by L-BFGS until no partial derivative exceeds 1e-5.

    Paper
    -----
    F. Wu and Y. Huang. Collaborative Multi-Domain Sentiment Classification. ICDM 2015.

    Symbols
    -------
    w, w_d : global weights, difference of domain d
    S, p : similarity of domains, prior from the lexicon
    alpha, beta, ridge : weights of the prior, of the graph and of the penalty (eta)

    Departures
    ----------
    There is no prior without a lexicon, or if the words of the features are unknown. The lexicon is used as it is, not
    extended by domain words. Similarity is based on content only, with the weighting of the features (tf-idf by
    default). The hinge is squared, global and domain weights share one penalty, and there is no L1 penalty. The bias
    is the weight of a constant feature; more than two classes are one-vs-rest.

    Examples
    --------
    >>> from multidomain import MultiDomainClassifier
    >>> texts = ["a fine pan", "a poor pan", "a fine book", "a poor book"] * 12
    >>> labels, domains = ["good", "bad"] * 24, ["pans", "pans", "books", "books"] * 12
    >>> model = MultiDomainClassifier("cmsc-lr", random_state=0)
    >>> model.fit(texts, labels, domains=domains).predict(["such a fine pan"], domains=["pans"])
    array(['good'], dtype='<U4')
    """

    settings_type = CMSCSettings
    settings: CMSCSettings

    def __init__(self, task: Task, settings: CMSCSettings):
        super().__init__(task, settings, own_weights=True)
        self.calibrates = settings.loss != "lr"

    @classmethod
    def requirements(cls, settings: CMSCSettings) -> Requirements:
        return replace(super().requirements(settings), unlabelled_text=True)

    def candidates(self) -> Sequence[Mapping[str, Any]]:
        s = self.settings
        ridges: Sequence[float] = RIDGE_GRID if s.ridge is None else [s.ridge]
        alphas: Sequence[float] = (0.0,)
        if s.lexicon is not None:
            alphas = (1e-4, 1e-3) if s.alpha is None else (s.alpha,)
        return [
            {"ridge": ridge, "beta": beta, "alpha": alpha}
            for ridge in ridges
            for beta in ([ridge, round(10 * ridge, 9)] if s.beta is None else [s.beta])
            for alpha in alphas
        ]

    def solve(self, data: TrainingData, values: Mapping[str, Any], context: FitContext) -> Weights:
        ridge, N = values["ridge"], len(self.task.domains)
        A = values["beta"] * laplacian(domain_similarity(data.text, N)) + ridge * np.eye(N)
        prior = None if self.settings.lexicon is None else values["alpha"] * self._prior(data)
        problem = TiedWeights(self.task, data.labelled, self.settings.loss, A, ridge, prior)
        theta = problem.minimum(context)
        return problem.weights(theta, unknown=theta[0])

    def _prior(self, data: TrainingData) -> np.ndarray:
        """Return the lexicon scores of the columns for each target class, shape (columns, targets)."""
        s = self.settings
        assert s.lexicon is not None
        if data.words is None:
            raise ConfigError(
                "A lexicon needs the words behind the features, and these are vectors whose words are not known.",
                "Drop the setting 'lexicon', or train on texts.",
            )
        missing = [name for name in (s.positive, s.negative) if name not in data.classes]
        if missing:
            raise ConfigError(
                f"The lexicon speaks of the classes '{s.positive}' and '{s.negative}', and {quoted(missing)} is not "
                f"among {quoted(data.classes)}.",
                "Name them with {settings.positive=CLASS} and {settings.negative=CLASS}.",
            )
        values = read_lexicon(s.lexicon)
        of_word = np.array([values.get(word, 0.0) for word in data.words])
        prior = np.zeros((len(of_word), len(data.classes)))
        prior[:, data.classes.index(s.positive)] = of_word
        prior[:, data.classes.index(s.negative)] = -of_word
        return prior[:, -1:] if len(data.classes) == 2 else prior


def domain_similarity(text: Examples, n_domains: int) -> np.ndarray:
    """Return 1 minus the Jensen-Shannon divergence, in bits, of the word distributions, shape (domains, domains)."""
    x = abs(text.x).astype(np.float64)
    words = np.stack([np.asarray(x[text.d == d].sum(axis=0)).ravel() for d in range(n_domains)])
    words += 1e-12  # a domain of empty texts gets a uniform distribution
    with np.errstate(invalid="ignore"):  # rounding can make the divergence of equal domains negative, its root NaN
        distance = np.array([[jensenshannon(a, b, base=2) for b in words] for a in words])
    return 1 - np.nan_to_num(distance) ** 2
