"""Estimated class priors of domains with few labels or none, with intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit, logit, softmax

from multidomain.features.sparse_rows import selected
from multidomain.methods.data import Examples
from multidomain.methods.priors.alignment import LEAST, bias_for_share, class_odds
from multidomain.methods.priors.held_out import LARGEST_SHIFT, Errors, calibrated, held_out_domains, measured_errors
from multidomain.methods.priors.scorer import DomainText, Scorer
from multidomain.methods.priors.third_moments import expected_ratio

_SPREAD_ERROR = 0.35  # relative error of the spread
_LOCATION_NOISE = 10.0  # variance of the location for a single row
_UNSHIFTED, _ABOUT = 0.3, 0.1  # probability that the prior is that of the labelled rows, give or take
_UNCERTAIN = 1.0  # variance of the log-odds from which nothing is aligned
_WIDEST = np.log(99)  # of the shifts considered: from 1/2 to 0.01 or 0.99
_MOST_ROWS = 20_000  # of the labelled rows
_MOST_TEXT = 200_000  # rows of a domain: more would say the same


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
    source_prior = labelled_prior(labelled, n_classes)
    held_out = list(held_out_domains(labelled, n_classes, random))
    if not held_out:
        return {int(d): _unknown(source_prior) for d in np.unique(text.d)}
    calibration = calibrated(held_out)
    errors = measured_errors(held_out, calibration, source_prior, random)
    scorer = Scorer(labelled, n_classes)
    estimates = {}
    for d in np.unique(text.d):
        own = labelled.select(labelled.d == d)
        assert own.y is not None
        seen = DomainText(scorer, calibration, selected(text.x, _some_rows(text.d == d, random)))
        own_logits = calibration.logits(scorer.scores(scorer.features(own.x)))
        of_class = [_posterior(seen, c, source_prior[c], errors, own_logits, own.y == c) for c in range(n_classes)]
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


def _some_rows(is_in: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return the rows of a domain; of very many some, at random."""
    rows = np.flatnonzero(is_in)
    return rows if len(rows) <= _MOST_TEXT else np.sort(random.choice(rows, _MOST_TEXT, replace=False))


def _posterior(
    seen: DomainText, c: int, source_prior: float, errors: Errors, own_logits: np.ndarray, own: np.ndarray
) -> tuple[float, float, float, float]:
    """Return the estimated share of a class, its interval, and how certain it is."""
    offsets = np.linspace(-_WIDEST, _WIDEST, 185)
    share = expit(logit(source_prior) + offsets)
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
    log_density = np.log(_prior_density(offsets)) - 0.5 * squares / conflict - 0.5 * np.log(ratio)
    if len(own):
        own_odds = np.where(own, 1, -1) * (class_odds(own_logits, c) + bias[:, None])  # (offsets, rows)
        log_density += log_expit(own_odds).sum(axis=1)
    density = softmax(log_density)
    low, high = np.interp([0.025, 0.975], np.cumsum(density), share)
    cautious = np.abs(offsets) <= (_WIDEST if len(own) else LARGEST_SHIFT)
    estimate = float(density[cautious] @ share[cautious] / density[cautious].sum())
    certainty = 1 - _variance(density, offsets) / _UNCERTAIN
    return estimate, float(low), float(high), max(certainty, 0.0)


def _prior_density(offsets: np.ndarray) -> np.ndarray:
    """Return the density of the offset before anything is seen, at a number of values."""
    logistic = np.exp(-offsets) / (1 + np.exp(-offsets)) ** 2
    unshifted = np.exp(-0.5 * (offsets / _ABOUT) ** 2) / (_ABOUT * np.sqrt(2 * np.pi))
    return (1 - _UNSHIFTED) * logistic + _UNSHIFTED * unshifted


def _variance(density: np.ndarray, values: np.ndarray) -> float:
    return float(density @ values**2 - (density @ values) ** 2)


def _unknown(source_prior: np.ndarray) -> PriorEstimate:
    return PriorEstimate(source_prior, np.zeros(len(source_prior)), np.ones(len(source_prior)), certainty=0.0)
