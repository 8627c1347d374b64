"""The recommended method: an SVM with shared and private weights on log-count-ratio tf-idf and denoised features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field
from scipy.sparse import csr_matrix

from multidomain.kernels.parallel import map_in_threads
from multidomain.methods.base import ArraySpec, FitContext, Method, Requirements
from multidomain.methods.calibration import calibrate_domains
from multidomain.methods.data import Examples, TrainingData
from multidomain.methods.history import History
from multidomain.methods.linear_form import DenoisedForm, LinearForm
from multidomain.methods.priors.alignment import align_predictions, predicted_shares, prior_bias
from multidomain.methods.priors.estimate import PriorEstimate, labelled_prior
from multidomain.methods.priors.settings import ClassPriors, described, resolved_priors
from multidomain.methods.pruning import narrowed
from multidomain.methods.registry import register
from multidomain.methods.selection import dev_rows, dev_score, fit_best, fit_first_good
from multidomain.methods.sped.class_biases import class_biases
from multidomain.methods.sped.earlier import converted
from multidomain.methods.sped.pseudo_labels import pseudo_labels
from multidomain.methods.sped.views import MOST_DENOISED, TwoViews, not_denoised
from multidomain.methods.sped.weights import BothViews, Weights
from multidomain.methods.task import Task
from multidomain.settings import Searched, Settings
from multidomain.threads import compiled_threads

if TYPE_CHECKING:
    from multidomain.methods.sped.solver import Solved, Solver

_LENGTHS = (0.7, 0.0)
_COSTS = (0.1, 0.3, 1.0, 3.0)
_FEW_LABELS, _FEW_OF_OTHERS = 500, 0.5  # with fewer labels, a domain is also learnt from its unlabelled text
_UNSCALED_ROWS = 2.0  # dev rows that scores without a temperature count for


class SPEDSettings(Settings):
    """The parts, each of which 0 switches off; `C` of None is chosen on the dev set."""

    evidence: Annotated[float, Searched("0..1")] = Field(
        0.5, ge=0, le=1, description="weight of log-count ratios in the tf-idf; 0: none"
    )
    private: Annotated[float, Searched("0..1")] = Field(
        0.5, ge=0, description="variance of private relative to shared weights; 0: none"
    )
    denoised: int = Field(500, ge=0, description="number of denoised features; 0: none")
    denoised_length: float | None = Field(
        None, ge=0, description="norm of the denoised view (words: 1); by default 0.7 or 0, chosen on the dev set"
    )
    noise: Annotated[float, Searched("0.5..0.95")] = Field(
        0.8, ge=0.01, lt=1, description="probability that noise drops a word"
    )
    denoised_words: int = Field(10_000, ge=1, description="number of most frequent n-grams to denoise")
    rounds: int = Field(3, ge=0, description="rounds of self-training on pseudo-labels; 0: none")
    pseudo_label_weight: Annotated[float, Searched("0.1..1")] = Field(
        0.5, gt=0, description="weight of a pseudo-label beside a label"
    )
    class_priors: ClassPriors = Field(
        "estimate",
        description="class priors of domains without labels: estimate, labelled (as in the labelled rows), or given: "
        '{"nyt": {"negative": 0.4, "positive": 0.6}}',
    )
    C: float | None = Field(None, gt=0, description="weight of the loss; by default chosen on the dev set")


@register(
    "sped",
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

    first over the labelled rows, then in `R` rounds also over the text of domains with few labels or none, with the
    predictions of the previous round as pseudo-labels. Before the first round their logits are aligned to the class
    prior of the domain, which is estimated, as far as it is certain (see `estimate_priors`). From then on the shares
    of the rows that each class is predicted for stay: a round may change which rows have a class, not how many.
    A pseudo-label has the weight :math:`\omega_i = \tau \kappa_d (p_i - p_i') b_c`: how certain the prior is, the
    margin between the two most probable classes, and a factor that gives the classes `c` of a domain the shares of the
    labelled rows, so that a rare class is not unlearnt. A round that costs dev accuracy is dropped.

    Logits are divided by a temperature that is fitted on the dev set. In a domain with labels they are also aligned to
    its class prior, on the labelled rows themselves, each as if it had been left out (see `class_biases`).

    Paper
    -----
    Evidence: S. Wang and C. D. Manning, ACL 2012. Denoising: M. Chen et al., ICML 2012. Shared and private weights:
    H. Daumé III, ACL 2007. Aligned class prior: D. Berthelot et al., ICLR 2020. Balanced pseudo-labels: Y. Zou et al.,
    ECCV 2018.

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
        self.views = TwoViews(task.n_inputs, settings.denoised_words, settings.denoised)
        self.linear = Weights.empty()

    def arrays(self) -> dict[str, ArraySpec]:
        of_weights = Weights.arrays(self.task.n_inputs, len(self.task.domains), self.task.n_classes)
        own = {f"linear.{name}": spec for name, spec in of_weights.items()}
        return super().arrays() | own | {f"views.{name}": spec for name, spec in self.views.arrays().items()}

    @classmethod
    def requirements(cls, settings: SPEDSettings) -> Requirements:
        features = {"weighting": "tfidf", "max_features": 500_000, "ngram_range": (1, 3)}
        return Requirements(
            features=features, unlabelled_text=True, calibrated=True, prunable=True, linear=True, any_size=True
        )

    def fit(self, data: TrainingData, context: FitContext) -> History:
        s = self.settings
        denoise = len(data.text) <= MOST_DENOISED or s.denoised_length is not None
        if s.denoised and not denoise:
            context.note(not_denoised(len(data.text)))
        self.views.fit(data.labelled, data.text, self.task.n_classes, s.evidence, s.noise, denoise=denoise)
        labelled, dev = self._rows(data.labelled), self._rows(data.dev)
        solver = self._solver(labelled)
        solved, chosen = self._selected(solver, data, dev, context)
        unlabelled = data.text.select(~data.text_has_label & self._has_few_labels(data)[data.text.d])
        priors = resolved_priors(s.class_priors, data, unlabelled)
        text = self._rows(unlabelled)
        model = self._aligned(self._calibrated(solver, solved, chosen["length"], dev, data), text, priors)
        if s.rounds and len(text.d):
            certainty = np.array([priors[d].certainty if d in priors else 0.0 for d in range(len(self.task.domains))])
            rows = _Rows(labelled, text, dev, s.pseudo_label_weight * certainty[text.d])
            model = self._self_trained(model, solved, rows, data, chosen, context)
        self.linear = model.single_precision()
        if not chosen["length"]:
            self.views.drop_denoised()
        return History(chosen=chosen, class_priors=described(priors, s.class_priors, data))

    def _selected(
        self, solver: Solver, data: TrainingData, dev: BothViews, context: FitContext
    ) -> tuple[Solved, dict[str, Any]]:
        """Return what is learnt from labels with the hyperparameters that the dev set speaks for, and these."""
        from multidomain.methods.sped.solver import CostPath

        assert data.labelled.y is not None
        y, weight = data.labelled.y, _weight(data.labelled)
        candidates, n_dev = self._candidates(), dev_rows(data.dev, context.metric)

        def path(length: float) -> CostPath:
            return CostPath(
                [values["C"] for values in candidates if values["length"] == length],
                lambda C, start: solver.solve(y, C * weight, length, start),
                lambda weights: dev_score(weights.logits(dev), data.dev, context.metric) if n_dev else 0.0,
            )

        paths = {values["length"]: path(values["length"]) for values in candidates}
        if n_dev and compiled_threads() > 1 and self.task.n_classes == 2:  # else the classes are solved in parallel
            map_in_threads(CostPath.finish, list(paths.values()))
        # The dev set of other domains overrides the preferred value only by a clear margin.
        spoken_for = set(data.dev.d) == set(range(len(self.task.domains)))
        (_, dual), chosen = (fit_best if spoken_for else fit_first_good)(
            candidates,
            lambda values: paths[values["length"]].at(values["C"]),
            lambda found: found[0],
            context,
            n_dev=n_dev,
        )
        return solver.solve(y, chosen["C"] * weight, chosen["length"], dual), chosen

    def _self_trained(
        self,
        model: Weights,
        solved: Solved,
        rows: _Rows,
        data: TrainingData,
        chosen: dict[str, Any],
        context: FitContext,
    ) -> Weights:
        """Return the weights after all rounds; one that costs a standard error of the first dev score ends it.

        Each round starts from the solution of the round before, the first one from that of the labels.
        """
        assert data.labelled.y is not None
        first = _dev_score(model, rows.dev, data.dev, context)
        text, shares = rows.text, predicted_shares(model.logits(rows.text), rows.text.d)
        source_prior = labelled_prior(data.labelled, self.task.n_classes, weighted=True)
        solver, weight = self._solver(rows.labelled + text), _weight(data.labelled)
        for number in range(1, self.settings.rounds + 1):
            answer, pseudo_weight = pseudo_labels(model.logits(text), text.d, source_prior)
            cost = chosen["C"] * np.r_[weight, rows.trust * pseudo_weight]
            solved = solver.solve(np.r_[data.labelled.y, answer], cost, chosen["length"], solved.dual)
            calibrated = self._calibrated(solver, solved, chosen["length"], rows.dev, data)
            following = self._with_shares(calibrated, text, shares)
            reached = _dev_score(following, rows.dev, data.dev, context)
            context.report({"round": number, **chosen}, reached)
            if first is not None and reached is not None:
                n_dev = dev_rows(data.dev, context.metric)
                if reached < first - (first * (1 - first) / n_dev) ** 0.5:
                    break
            model = following
        return model

    def _has_few_labels(self, data: TrainingData) -> np.ndarray:
        """Tell for each domain whether it has few labels, also compared to other domains."""
        labels = np.bincount(data.labelled.d, minlength=len(self.task.domains))
        return (labels < _FEW_LABELS) & (labels < _FEW_OF_OTHERS * labels.max())

    def _candidates(self) -> list[dict[str, float]]:
        s = self.settings
        lengths = _LENGTHS if s.denoised_length is None else (s.denoised_length,)
        lengths = lengths if self.views.projection.size else (0.0,)
        costs = _COSTS if s.C is None else (s.C,)
        # Without the denoised view the same C regularises less.
        return [{"length": length, "C": C} for length in lengths for C in costs]

    def _rows(self, examples: Examples) -> BothViews:
        return BothViews(*self.views.of(examples.x), examples.d)

    def _solver(self, rows: BothViews) -> Solver:
        from multidomain.methods.sped.solver import Solver  # imported here: prediction must not load numba

        return Solver(rows, len(self.task.domains), self.task.n_classes, self.settings.private)

    def _calibrated(self, solver: Solver, solved: Solved, length: float, dev: BothViews, data: TrainingData) -> Weights:
        """Return weights of calibrated logits, with a temperature and class biases for each domain.

        A domain without dev rows has the common temperature, one without labels no biases.
        """
        assert data.dev.y is not None
        common, of_domain = calibrate_domains(
            solved.weights.logits(dev), data.dev.y, dev.d, strength=_UNSCALED_ROWS, with_bias=self.task.n_classes > 2
        )
        scaled = [common, *(of_domain.get(d, common) for d in range(len(self.task.domains)))]
        left_out, labelled = solver.left_out(solved, length, len(data.labelled)), data.labelled
        for d in np.unique(labelled.d):
            rows = labelled.d == d
            left_out[rows] = scaled[1 + d].logits(left_out[rows])
        biases, none = class_biases(left_out, labelled), np.zeros(self.task.n_classes)
        return solved.weights.calibrated([one.moved(biases.get(copy - 1, none)) for copy, one in enumerate(scaled)])

    def _aligned(self, model: Weights, text: BothViews, priors: Mapping[int, PriorEstimate]) -> Weights:
        """Return a model whose logits follow the class prior of each domain, as far as it is certain."""
        return model.moved(
            {
                d: prior_bias(model.logits(text.select(text.d == d)), estimate.prior, estimate.certainty)
                for d, estimate in priors.items()
            }
        )

    def _with_shares(self, model: Weights, text: BothViews, shares: Mapping[int, np.ndarray]) -> Weights:
        """Return a model that predicts each class for a given share of the text of a domain."""
        moved = {}
        for d, share in shares.items():
            logits = model.logits(text.select(text.d == d))
            moved[d] = (align_predictions(logits, share) - logits)[0]
        return model.moved(moved)

    def pruned(self, size: np.ndarray, share: float) -> tuple[Method, np.ndarray]:
        linear, is_read = self.linear.pruned(size * self.views.evidence, share)
        denoised = self.views.most_denoised(size, share)
        is_read[self.views.columns[denoised]] = True
        columns = np.flatnonzero(is_read)
        arrays = {f"linear.{name}": array for name, array in vars(linear.narrowed(columns)).items()}
        arrays |= {
            "views.evidence": self.views.evidence[columns],
            "views.columns": np.searchsorted(columns, self.views.columns[denoised]).astype(np.int32),
            "views.projection": self.views.projection[denoised],
        }
        return narrowed(self, columns, arrays), columns

    def linear_form(self) -> LinearForm:
        linear, views = self.linear, self.views
        copy = np.repeat(np.arange(1, len(linear.starts)), np.diff(linear.starts))
        denoised = DenoisedForm(views.columns, views.projection, linear.denoised.transpose(1, 2, 0))
        return LinearForm(
            shared=linear.shared.T,
            keys=copy * self.task.n_inputs + linear.columns,
            private=linear.private.T,
            scale=linear.scale,
            bias=linear.bias,
            evidence=views.evidence,
            denoised=denoised if views.projection.size else None,
        )

    def load_weights(self, weights: Mapping[str, np.ndarray]) -> None:
        """Set the weights; those that earlier versions have saved are converted."""
        super().load_weights(converted(weights) if "weight" in weights else weights)
        self.views.check()
        self.linear.check()
        if self.linear.denoised.shape[2] != self.views.projection.shape[1]:
            raise ValueError("the projection does not fit its weights")

    def logits(self, x: csr_matrix, d: int | None) -> np.ndarray:
        return self.linear.logits_of(*self.views.of(x), d)

    def logits_of_views(self, shared: csr_matrix, private: csr_matrix, d: int | None) -> np.ndarray:
        common = self.logits(shared, None)
        return common if d is None else common + self.logits(private, d) - self.logits(private, None)


@dataclass(frozen=True)
class _Rows:
    """Rows of self-training; `trust` is how much the pseudo-label of each row of the text may count."""

    labelled: BothViews
    text: BothViews
    dev: BothViews
    trust: np.ndarray


def _weight(labelled: Examples) -> np.ndarray:
    return np.ones(len(labelled)) if labelled.weight is None else labelled.weight


def _dev_score(model: Weights, dev: BothViews, labels: Examples, context: FitContext) -> float | None:
    return dev_score(model.logits(dev), labels, context.metric) if len(labels) else None
