"""Estimated class priors of domains with few labels or none, with intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import expit, log_expit, logit, softmax

from multidomain.methods.calibration import Calibration, calibrate
from multidomain.methods.data import Examples
from multidomain.methods.dual_solver import solve_two_views
from multidomain.methods.evidence import class_evidence, weighted_rows
from multidomain.methods.priors.alignment import LEAST, bias_for_share, class_odds
from multidomain.methods.priors.third_moments import MomentRatio, expected_ratio, moment_ratio, part_moments
from multidomain.metrics import two_class_scores

# What is expected of any data, before its labelled domains are looked at, and how many of them that is worth.
_BEFOREHAND = 3.0
_LOCATION_ERROR = 1.0  # of a domain's logits
_SPREAD, _SPREAD_ERROR = 0.15, 0.35  # of the parts of a score within a class, and its relative error
_MOST_SPREAD = 2.0
_RATIO_ERROR = 0.15  # of the moment ratio
_LOCATION_NOISE = 10.0  # variance of the location for a single row
_AS_USUAL, _ABOUT = 0.3, 0.1  # probability that the prior is that of the labelled rows, give or take
_UNCERTAIN = 1.0  # variance of the log-odds from which nothing is aligned
_CAUTIOUS, _WIDEST = np.log(9), np.log(99)  # how far log-odds may move: from 1/2 to 0.1 or 0.9; to 0.01 or 0.99
_TRIED = _CAUTIOUS * np.array([-1, -0.5, 0, 0.5, 1])  # at which held-out domains are resampled
_GROUPS = 5
_FEWEST_ROWS = 50  # of a labelled domain that is held out
_MOST_ROWS = 20_000  # of the labelled rows
_C = 0.1
_EVIDENCE, _PRIVATE = 0.5, 0.5


@dataclass(frozen=True)
class PriorEstimate:
    """The estimated class prior of a domain.

    Attributes
    ----------
    prior, low, high
        Share of each class, and its 95 % interval.
    certainty
        1 minus the variance of the log-odds, 0 at the least.
    labels
        Number of labels of the domain that the estimate is based on.
    """

    prior: np.ndarray
    low: np.ndarray
    high: np.ndarray
    certainty: float
    labels: int = 0


def labelled_prior(rows: Examples, n_classes: int, *, weighted: bool = False) -> np.ndarray:
    """Return the shares of the classes among labelled rows, each counted once or by its weight; none is 0."""
    assert rows.y is not None
    shares = np.bincount(rows.y, rows.weight if weighted else None, minlength=n_classes)
    shares = (shares / shares.sum()).clip(LEAST)
    return shares / shares.sum()


def estimate_priors(labelled: Examples, text: Examples, n_classes: int) -> dict[int, PriorEstimate]:
    r"""Estimate the class prior of each domain that has text.

    Let :math:`\delta` be how far the log-odds of a class are from those of the labelled prior. Two things tell of it:

    - The logits of a linear model, calibrated on domains that were held out. Adding :math:`m(\delta)` to the class's
      logit makes the mean probability equal the prior that :math:`\delta` stands for. If the classes looked in this
      domain as in the others, that would be :math:`\delta` itself, which is the fixed point that EM finds (Saerens et
      al. 2002; Alexandari et al. 2020). Domains differ, so :math:`m(\delta) - \delta \sim N(0, \tau^2)`.
    - The moment ratio of the score (see `expected_ratio`), which does not depend on where its threshold is:
      :math:`\rho \sim N(\rho_k(\delta), \sigma^2)`.

    :math:`\tau`, `k` and :math:`\sigma` are measured on the labelled domains, each in turn (or a group of them) held
    out and, for :math:`\tau`, resampled to several class priors; few domains tell little, so expected values count as
    three more. Beforehand :math:`\delta` is 0 (give or take 0.1) with probability 0.3, and otherwise follows the
    logistic distribution. With the labels of the domain itself, if it has some, this gives a posterior. Where the two
    contradict each other, the errors of both are increased until they agree (Birge 1932). The result is the mean of
    the share, where :math:`\delta` stays within :math:`\pm \log 9`: assuming a prior that is too extreme costs more
    than one that is too even. With labels of the domain itself there is no such bound.
    """
    assert labelled.y is not None
    random = np.random.default_rng(0)
    labelled = labelled.select(_sampled(labelled.d, np.unique(text.d), random))
    usual = labelled_prior(labelled, n_classes)
    held_out = list(_held_out(labelled, n_classes, random))
    if not held_out:
        return {int(d): _unknown(usual) for d in np.unique(text.d)}
    calibration = _calibrated(held_out)
    errors = _errors(held_out, calibration, usual, random)
    scorer = _Scorer(labelled, n_classes)
    estimates = {}
    for d in np.unique(text.d):
        own = labelled.select(labelled.d == d)
        assert own.y is not None
        seen = _Seen(scorer, calibration, text.x[text.d == d])
        own_logits = calibration.logits(scorer.scores(scorer.features(own.x)))
        of_class = [_posterior(seen, c, usual[c], errors, own_logits, own.y == c) for c in range(n_classes)]
        means, low, high, certainty = np.array(of_class).T
        prior = means / means.sum()
        low, high = np.minimum(low, prior), np.maximum(high, prior)
        estimates[int(d)] = PriorEstimate(prior, low, high, float(certainty.mean()), len(own))
    return estimates


def _sampled(d: np.ndarray, kept: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return at most 20,000 rows, at random; those of some domains are all kept."""
    keep = np.isin(d, kept)
    others = np.flatnonzero(~keep)
    most = max(_MOST_ROWS - int(keep.sum()), 0)
    if len(others) > most:
        others = random.choice(others, most, replace=False)
    return np.sort(np.concatenate([np.flatnonzero(keep), others]))


class _Scorer:
    """A linear model of the shared evidence-weighted features."""

    def __init__(self, rows: Examples, n_classes: int):
        assert rows.y is not None
        self._scale = 1 - _EVIDENCE + _EVIDENCE * class_evidence(rows, n_classes)
        x, none = self.features(rows.x), np.zeros((len(rows), 0), dtype=np.float32)
        domains, d = np.unique(rows.d, return_inverse=True)
        cost = np.full(len(rows), _C) if rows.weight is None else _C * rows.weight
        solutions = []
        for c in [1] if n_classes == 2 else range(n_classes):
            y = np.where(rows.y == c, 1, -1)
            weight, _, bias = solve_two_views(x, none, d, y, cost, len(domains), _PRIVATE)
            solutions.append((weight[0].astype(np.float64), bias[0]))
        weights, biases = (np.stack(part, axis=-1) for part in zip(*solutions, strict=True))
        if n_classes == 2:
            weights, biases = two_class_scores(weights[:, 0]), two_class_scores(biases[0])
        self.weights, self._biases = weights, biases  # (columns, classes), (classes,)

    def features(self, x: csr_matrix) -> csr_matrix:
        """Return rows as the model reads them."""
        return weighted_rows(x, self._scale)

    def scores(self, features: csr_matrix) -> np.ndarray:
        """Return class scores, shape (rows, classes)."""
        return features @ self.weights + self._biases


@dataclass(frozen=True)
class _HeldOut:
    """Labelled rows and a model that was fitted without their domains."""

    scorer: _Scorer
    x: csr_matrix
    y: np.ndarray
    whole_domains: bool

    @property
    def scores(self) -> np.ndarray:
        return self.scorer.scores(self.scorer.features(self.x))


def _held_out(rows: Examples, n_classes: int, random: np.random.Generator) -> Iterator[_HeldOut]:
    """Hold out the domains one by one, or in groups, if they have enough rows; if one does, hold out its rows."""
    assert rows.y is not None
    _, code, size = np.unique(rows.d, return_inverse=True, return_counts=True)
    large = np.flatnonzero(size >= _FEWEST_ROWS)
    several = len(large) > 1
    group = np.full(len(rows), -1) if several else random.permutation(len(rows)) % _GROUPS
    for number, of_domain in enumerate(large if several else ()):
        group[code == of_domain] = number % _GROUPS
    for g in range(_GROUPS):
        here = group == g
        rest = rows.select(~here)
        assert rest.y is not None
        if here.any() and len(np.unique(rest.y)) > 1:
            yield _HeldOut(_Scorer(rest, n_classes), rows.x[here], rows.y[here], several)


def _calibrated(held_out: list[_HeldOut]) -> Calibration:
    return calibrate(np.concatenate([one.scores for one in held_out]), np.concatenate([one.y for one in held_out]))


class _Seen:
    """What the text of a domain shows: logits, and the parts of its scores."""

    def __init__(self, scorer: _Scorer, calibration: Calibration, x: csr_matrix):
        self._features = scorer.features(x)
        self._weights = scorer.weights
        self._logits = calibration.logits(scorer.scores(self._features))

    def __len__(self) -> int:
        return len(self._logits)

    def odds(self, c: int) -> np.ndarray:
        """Return the log-odds of a class, row by row."""
        return class_odds(self._logits, c)

    def ratio(self, c: int) -> MomentRatio:
        """Return the moment ratio of the score of a class."""
        return moment_ratio(self._features, self._weights[:, c])


@dataclass(frozen=True)
class _Errors:
    """What held-out domains show.

    Attributes
    ----------
    location
        Error of the logits' location.
    spread, ratio
        Spread of the parts of a score within a class, and error of the moment ratio.
    signal
        What the parts of a score have in common; 0 if unknown.
    """

    location: float
    spread: float
    ratio: float
    signal: float = 0.0


def _errors(
    held_out: list[_HeldOut], calibration: Calibration, usual: np.ndarray, random: np.random.Generator
) -> _Errors:
    """Measure the errors on held-out domains; held-out rows of a single one tell nothing of others."""
    if not held_out[0].whole_domains:
        return _Errors(_LOCATION_ERROR, _SPREAD, _RATIO_ERROR)
    locations, moments = [], []
    for one in held_out:
        for c in _classes(usual):
            found = _locations(one, c, calibration, usual, random)
            locations += [float(np.mean(np.square(found)))] if found else []
            is_class = one.y == c
            if is_class.any() and not is_class.all():
                features = one.scorer.features(one.x)
                moments.append((part_moments(features, one.scorer.weights[:, c], is_class), is_class))
    weight = _BEFOREHAND * len(_classes(usual))
    location = (weight * _LOCATION_ERROR**2 + sum(locations)) / (weight + len(locations))
    spread = (weight * _SPREAD + sum(min(m.spread, _MOST_SPREAD) for m, _ in moments)) / (weight + len(moments))
    squares = [
        max((m.ratio.value - expected_ratio(is_class.mean(), spread)) ** 2 - m.ratio.noise, 0.0)
        for m, is_class in moments
    ]
    ratio = (weight * _RATIO_ERROR**2 + float(sum(squares))) / (weight + len(squares))
    signal = float(np.mean([m.ratio.signal for m, _ in moments])) if moments else 0.0
    return _Errors(location**0.5, spread, ratio**0.5, signal)


def _locations(
    one: _HeldOut, c: int, calibration: Calibration, usual: np.ndarray, random: np.random.Generator
) -> list[float]:
    """Return how far the logits of held-out rows are off, resampled to several priors of a class."""
    off = []
    for offset in _TRIED:
        rows = _resampled(one.y, c, offset, usual, random)
        if len(rows):
            odds, share = _Seen(one.scorer, calibration, one.x[rows]).odds(c), float((one.y[rows] == c).mean())
            off.append(bias_for_share(odds, share) - float(logit(share) - logit(usual[c])))
    return off


def _classes(usual: np.ndarray) -> list[int]:
    """Return the classes to look at: of two, one says it all."""
    return [1] if len(usual) == 2 else list(range(len(usual)))


def _resampled(y: np.ndarray, c: int, offset: float, usual: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return as many rows as give one class a prior whose log-odds are off by so much; none if a class is missing."""
    wanted_share = expit(logit(usual[c]) + offset)
    prior = usual * (1 - wanted_share) / (1 - usual[c])
    prior[c] = wanted_share
    of_class = [np.flatnonzero(y == k) for k in range(len(usual))]
    n = min(len(rows) / share for rows, share in zip(of_class, prior, strict=True))
    wanted = np.floor(n * prior).astype(int)
    if wanted.min() < 1:
        return np.empty(0, dtype=np.int64)
    return np.concatenate([random.choice(rows, k, replace=False) for rows, k in zip(of_class, wanted, strict=True)])


def _posterior(
    seen: _Seen, c: int, usual: float, errors: _Errors, own_logits: np.ndarray, own: np.ndarray
) -> tuple[float, float, float, float]:
    """Return the estimated share of a class, its interval, and how certain it is."""
    offsets = np.linspace(-_WIDEST, _WIDEST, 185)
    share = expit(logit(usual) + offsets)
    odds = seen.odds(c)
    bias = np.array([bias_for_share(odds, s) for s in share])
    found = seen.ratio(c)
    # A score with less signal than in the held-out domains says less, and where it lies more of the rest.
    weakness = max(errors.signal / found.signal, 1.0) if found.signal else np.inf
    location = weakness**2 * (errors.location**2 + _LOCATION_NOISE / len(seen))
    expected = expected_ratio(share, errors.spread)
    ratio = errors.ratio**2 + found.noise + (_SPREAD_ERROR * expected) ** 2
    squares = (bias - offsets) ** 2 / location + (found.value - expected) ** 2 / ratio
    conflict = max(float(squares.min()), 1.0)  # Birge ratio: two that contradict each other both say less
    log_density = np.log(_density_beforehand(offsets)) - 0.5 * squares / conflict - 0.5 * np.log(ratio)
    if len(own):
        own_odds = np.where(own, 1, -1) * (class_odds(own_logits, c) + bias[:, None])  # (offsets, rows)
        log_density += log_expit(own_odds).sum(axis=1)
    density = softmax(log_density)
    low, high = np.interp([0.025, 0.975], np.cumsum(density), share)
    cautious = np.abs(offsets) <= (_WIDEST if len(own) else _CAUTIOUS)
    estimate = float(density[cautious] @ share[cautious] / density[cautious].sum())
    certainty = 1 - _variance(density, offsets) / _UNCERTAIN
    return estimate, float(low), float(high), max(certainty, 0.0)


def _density_beforehand(offsets: np.ndarray) -> np.ndarray:
    """Return the density of the offset before anything is seen, at a number of values."""
    logistic = np.exp(-offsets) / (1 + np.exp(-offsets)) ** 2
    as_usual = np.exp(-0.5 * (offsets / _ABOUT) ** 2) / (_ABOUT * np.sqrt(2 * np.pi))
    return (1 - _AS_USUAL) * logistic + _AS_USUAL * as_usual


def _variance(density: np.ndarray, values: np.ndarray) -> float:
    return float(density @ values**2 - (density @ values) ** 2)


def _unknown(usual: np.ndarray) -> PriorEstimate:
    return PriorEstimate(usual, np.zeros(len(usual)), np.ones(len(usual)), certainty=0.0)
