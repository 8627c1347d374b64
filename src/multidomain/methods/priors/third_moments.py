"""Class priors from third moments: how three parts of a document's score vary together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

_PARTITIONS = 20
_NOTHING = 1e6  # variance of a ratio that says nothing


@dataclass(frozen=True)
class MomentRatio:
    """How skewed a score is.

    Attributes
    ----------
    value
        See `moment_ratio`.
    noise
        Its variance by sampling.
    signal
        What the parts have in common: the root of their mean covariance.
    """

    value: float
    noise: float
    signal: float


def moment_ratio(x: csr_matrix, weight: np.ndarray) -> MomentRatio:
    r"""Return the skewness that three parts of a linear score have in common.

    .. math:: \rho = \frac{E[z_1 z_2 z_3]}{\sqrt{E[z_1 z_2] \, E[z_1 z_3] \, E[z_2 z_3]}}

    The columns are divided at random into three parts, whose shares :math:`z_v` of the score are centred; moments are
    averaged over several divisions. It does not change if the score is shifted or scaled. `expected_ratio` says what
    it tells about the class prior. It is 0, with a huge noise, if the parts have nothing in common. Were they
    independent, the variance of the third moment would be the product of theirs divided by the number of rows.

    Parameters
    ----------
    x
        The rows.
    weight
        The weight of each column in the score of a class.
    """
    third = product = variances = pairs = 0.0
    for z in _parts(x, weight):
        z = z - z.mean(axis=0)
        covariance = z.T @ z / len(z)
        third += float(z.prod(axis=1).mean()) / _PARTITIONS
        product += _product_of_pairs(covariance) / _PARTITIONS
        variances += float(covariance.diagonal().prod()) / _PARTITIONS
        pairs += _sum_of_pairs(covariance) / 3 / _PARTITIONS
    if product <= 0 or pairs <= 0:
        return MomentRatio(0.0, _NOTHING, 0.0)
    return MomentRatio(third / product**0.5, variances / product / x.shape[0], pairs**0.5)


def expected_ratio(share: np.ndarray | float, spread: float) -> np.ndarray | float:
    r"""Return the moment ratio to expect of a class that has some share of the rows.

    Let the class means of part `v` be :math:`\delta_v` apart, and the covariance of two parts within a class be
    :math:`k \delta_u \delta_v`. Then

    .. math::
        E[z_u z_v] = (\pi (1 - \pi) + k) \, \delta_u \delta_v, \quad
        E[z_1 z_2 z_3] = \pi (1 - \pi)(1 - 2 \pi) \, \delta_1 \delta_2 \delta_3, \quad
        \rho = \frac{\pi (1 - \pi)(1 - 2 \pi)}{(\pi (1 - \pi) + k)^{3/2}}

    With :math:`k = 0`, parts that are independent given the class, this is the estimator of Jaffe et al.

    Parameters
    ----------
    share, spread
        :math:`\pi` and `k`.

    References
    ----------
    A. Jaffe, B. Nadler and Y. Kluger. Estimating the Accuracies of Multiple Classifiers Without Labeled Data. AISTATS
    2015.

    Examples
    --------
    >>> [round(float(expected_ratio(share, 0.0)), 2) for share in (0.1, 0.5, 0.9)]
    [2.67, 0.0, -2.67]
    """
    variance = share * (1 - share)
    return variance * (1 - 2 * share) / (variance + spread) ** 1.5


@dataclass(frozen=True)
class PartMoments:
    """Moments of the parts of a score in rows whose class is known.

    Attributes
    ----------
    ratio
        As `moment_ratio`.
    spread
        `k` of `expected_ratio`.
    """

    ratio: MomentRatio
    spread: float


def part_moments(x: csr_matrix, weight: np.ndarray, is_class: np.ndarray) -> PartMoments:
    """Return the moment ratio of rows, and how far the parts vary together within the class and outside it."""
    within = between = 0.0
    for z in _parts(x, weight):
        means = [z[mask].mean(axis=0) for mask in (is_class, ~is_class)]
        rest = z - np.where(is_class[:, None], *means)
        apart = means[0] - means[1]
        within += _sum_of_pairs(rest.T @ rest / len(z))
        between += _sum_of_pairs(np.outer(apart, apart))
    return PartMoments(moment_ratio(x, weight), max(within / between, 0.0) if between > 0 else np.inf)


def _parts(x: csr_matrix, weight: np.ndarray) -> Iterator[np.ndarray]:
    """Divide a score into three parts, shape (rows, 3), several times."""
    random = np.random.default_rng(0)
    for _ in range(_PARTITIONS):
        part = random.integers(0, 3, len(weight))
        yield x @ (weight[:, None] * (part[:, None] == np.arange(3)))


def _sum_of_pairs(matrix: np.ndarray) -> float:
    return float(matrix[0, 1] + matrix[0, 2] + matrix[1, 2])


def _product_of_pairs(matrix: np.ndarray) -> float:
    return float(matrix[0, 1] * matrix[0, 2] * matrix[1, 2])
