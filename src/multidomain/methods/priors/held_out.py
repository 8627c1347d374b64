"""What labelled domains, held out in turn, show about the errors of estimated class priors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import expit, logit

from multidomain.methods.calibration import Calibration, calibrate
from multidomain.methods.data import Examples
from multidomain.methods.priors.alignment import bias_for_share
from multidomain.methods.priors.scorer import DomainText, Scorer
from multidomain.methods.priors.third_moments import expected_ratio, part_moments

LARGEST_SHIFT = np.log(9)
"""How far the log-odds of a class are tried, and may be estimated without labels: from 1/2 to 0.1 or 0.9."""

# What is expected of any data, before its labelled domains are looked at, and how many of them that is worth.
_EXPECTED_DOMAINS = 3.0
_LOCATION_ERROR = 1.0  # of a domain's logits
_SPREAD = 0.15  # of the parts of a score within a class
_MOST_SPREAD = 2.0
_RATIO_ERROR = 0.15  # of the moment ratio
_SHIFTS = LARGEST_SHIFT * np.array([-1, -0.5, 0, 0.5, 1])  # that held-out domains are resampled to
_GROUPS = 5
_FEWEST_ROWS = 50  # of a labelled domain that is held out


@dataclass(frozen=True)
class HeldOut:
    """Labelled rows and a model that was fitted without their domains."""

    scorer: Scorer
    x: csr_matrix
    y: np.ndarray
    whole_domains: bool

    @property
    def scores(self) -> np.ndarray:
        return self.scorer.scores(self.scorer.features(self.x))


def held_out_domains(rows: Examples, n_classes: int, random: np.random.Generator) -> Iterator[HeldOut]:
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
            yield HeldOut(Scorer(rest, n_classes), rows.x[here], rows.y[here], several)


def calibrated(held_out: list[HeldOut]) -> Calibration:
    """Return the calibration of a model's scores in domains that it has not seen."""
    return calibrate(np.concatenate([one.scores for one in held_out]), np.concatenate([one.y for one in held_out]))


@dataclass(frozen=True)
class Errors:
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


def measured_errors(
    held_out: list[HeldOut], calibration: Calibration, source_prior: np.ndarray, random: np.random.Generator
) -> Errors:
    """Measure the errors on held-out domains; held-out rows of a single one tell nothing of others."""
    if not held_out[0].whole_domains:
        return Errors(_LOCATION_ERROR, _SPREAD, _RATIO_ERROR)
    locations, moments = [], []
    for one in held_out:
        for c in _classes(source_prior):
            found = _locations(one, c, calibration, source_prior, random)
            locations += [float(np.mean(np.square(found)))] if found else []
            is_class = one.y == c
            if is_class.any() and not is_class.all():
                features = one.scorer.features(one.x)
                moments.append((part_moments(features, one.scorer.weights[:, c], is_class), is_class))
    weight = _EXPECTED_DOMAINS * len(_classes(source_prior))
    location = (weight * _LOCATION_ERROR**2 + sum(locations)) / (weight + len(locations))
    spread = (weight * _SPREAD + sum(min(m.spread, _MOST_SPREAD) for m, _ in moments)) / (weight + len(moments))
    squares = [
        max((m.ratio.value - expected_ratio(is_class.mean(), spread)) ** 2 - m.ratio.noise, 0.0)
        for m, is_class in moments
    ]
    ratio = (weight * _RATIO_ERROR**2 + float(sum(squares))) / (weight + len(squares))
    signal = float(np.mean([m.ratio.signal for m, _ in moments])) if moments else 0.0
    return Errors(location**0.5, spread, ratio**0.5, signal)


def _locations(
    one: HeldOut, c: int, calibration: Calibration, source_prior: np.ndarray, random: np.random.Generator
) -> list[float]:
    """Return how far the logits of held-out rows are off, resampled to several priors of a class."""
    off = []
    for offset in _SHIFTS:
        rows = _resampled(one.y, c, offset, source_prior, random)
        if len(rows):
            odds, share = DomainText(one.scorer, calibration, one.x[rows]).odds(c), float((one.y[rows] == c).mean())
            off.append(bias_for_share(odds, share) - float(logit(share) - logit(source_prior[c])))
    return off


def _classes(source_prior: np.ndarray) -> list[int]:
    """Return the classes to look at: of two, one says it all."""
    return [1] if len(source_prior) == 2 else list(range(len(source_prior)))


def _resampled(
    y: np.ndarray, c: int, offset: float, source_prior: np.ndarray, random: np.random.Generator
) -> np.ndarray:
    """Return as many rows as give one class a prior whose log-odds are off by so much; none if a class is missing."""
    wanted_share = expit(logit(source_prior[c]) + offset)
    prior = source_prior * (1 - wanted_share) / (1 - source_prior[c])
    prior[c] = wanted_share
    of_class = [np.flatnonzero(y == k) for k in range(len(source_prior))]
    n = min(len(rows) / share for rows, share in zip(of_class, prior, strict=True))
    wanted = np.floor(n * prior).astype(int)
    if wanted.min() < 1:
        return np.empty(0, dtype=np.int64)
    return np.concatenate([random.choice(rows, k, replace=False) for rows, k in zip(of_class, wanted, strict=True)])
