"""Divergences among N discrete distributions, and the resulting values of the objectives at D's optimum.

A set of distributions is an array `P` of shape (N, K): row d is the distribution of domain d over K cells.
Everything is computed in float64 and in nats.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

_SUM_TOLERANCE = 1e-6


def jensen_shannon(P: ArrayLike) -> float:
    r"""Return :math:`JSD(P_1, \dots, P_N) = \frac{1}{N} \sum_i KL(P_i \| \bar P)`.

    :math:`\bar P` is the mean of the distributions.

    Parameters
    ----------
    P : array-like of shape (N, K)
        One distribution per row.

    Returns
    -------
    float
        In nats: 0 when all are equal, log N when no two of them share a cell.

    Examples
    --------
    >>> jensen_shannon([[0.5, 0.5], [0.5, 0.5]])
    0.0
    >>> round(jensen_shannon([[1.0, 0.0], [0.0, 1.0]]), 4)  # log 2
    0.6931
    """
    P = _distributions(P)
    # 0 log 0 = 0, and a cell that no domain visits has mean 0: both ratios are taken as 1.
    ratio = np.divide(P, P.mean(axis=0), out=np.ones_like(P), where=P > 0)
    # Clipped: rounding can leave -1e-17 for equal rows.
    return max(0.0, float((P * np.log(ratio)).sum(axis=1).mean()))


def neyman_chi_square(P: ArrayLike) -> NDArray[np.float64]:
    r"""Return :math:`\chi^2(P_i \| \bar P) = \sum_x (P_i(x) - \bar P(x))^2 / \bar P(x)` for each i.

    This is the form in the proof of Theorem 2, with the mean in the denominator (decision 8).

    Parameters
    ----------
    P : array-like of shape (N, K)
        One distribution per row.

    Returns
    -------
    ndarray of shape (N,)
        One divergence from the mean per distribution, between 0 and N - 1.

    Examples
    --------
    >>> neyman_chi_square([[1.0, 0.0], [0.0, 1.0]])
    array([1., 1.])
    """
    P = _distributions(P)
    mean = np.broadcast_to(P.mean(axis=0), P.shape)
    terms = np.divide((P - mean) ** 2, mean, out=np.zeros_like(P), where=mean > 0)
    return terms.sum(axis=1)


def mean_neyman_chi_square(P: ArrayLike) -> float:
    r"""Return :math:`\frac{1}{N} \sum_i \chi^2(P_i \| \bar P)`.

    Parameters
    ----------
    P : array-like of shape (N, K)
        One distribution per row.

    Returns
    -------
    float
        0 when all are equal, N - 1 when no two of them share a cell.

    Examples
    --------
    >>> round(mean_neyman_chi_square([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), 6)
    2.0
    """
    return float(neyman_chi_square(P).mean())


def optimal_discriminator(P: ArrayLike) -> NDArray[np.float64]:
    r"""Return :math:`D^*_i(x) = P_i(x) / \sum_j P_j(x)`, the optimum of both J_D (Lemmas 1 and 2).

    Parameters
    ----------
    P : array-like of shape (N, K)
        One distribution per row.

    Returns
    -------
    ndarray of shape (K, N)
        Row x is D's output in cell x. A cell that no domain visits gets 1/N: no loss depends on it.

    Examples
    --------
    >>> optimal_discriminator([[0.5, 0.5], [0.0, 1.0]]).round(3)
    array([[1.   , 0.   ],
           [0.333, 0.667]])
    """
    P = _distributions(P)
    total = np.broadcast_to(P.sum(axis=0), P.shape)
    return np.divide(P, total, out=np.full_like(P, 1 / len(P)), where=total > 0).T


def nll_optimum(P: ArrayLike) -> float:
    r"""Return :math:`-N \log N + N \cdot JSD(P_1, \dots, P_N)`: J_Fs of NLL at D's optimum (Theorem 1).

    Parameters
    ----------
    P : array-like of shape (N, K)
        One distribution per row.

    Returns
    -------
    float
        Between -N log N (equal distributions) and 0 (no two share a cell).

    Examples
    --------
    >>> round(nll_optimum([[0.5, 0.5], [0.5, 0.5]]), 4)  # -2 log 2
    -1.3863
    """
    P = _distributions(P)
    N = len(P)
    return -N * math.log(N) + N * jensen_shannon(P)


def l2_optimum(P: ArrayLike) -> float:
    r"""Return :math:`\frac{1}{N} \sum_i \chi^2(P_i \| \bar P)`: J_Fs of L2 at D's optimum (Theorem 2).

    Parameters
    ----------
    P : array-like of shape (N, K)
        One distribution per row.

    Returns
    -------
    float
        Between 0 (equal distributions) and N - 1 (no two share a cell).

    Examples
    --------
    >>> l2_optimum([[0.5, 0.5], [0.5, 0.5]])
    0.0
    """
    return mean_neyman_chi_square(P)


def jsd_from_cross_entropy(cross_entropy: float, n_domains: int) -> float:
    r"""Return :math:`\log N - H`, the divergence by Theorem 1.

    At D's optimum J_D is N times the cross-entropy H, hence ``JSD = log N - H``. Any other discriminator
    has a larger H, so this is a lower bound on the divergence; it is negative if the discriminator is
    worse than a uniform guess.

    Parameters
    ----------
    cross_entropy : float
        Of a domain classifier in nats, averaged within each domain and then over the domains.
    n_domains : int
        N.

    Returns
    -------
    float
        Nats: 0 for indistinguishable domains, log N for fully separate ones.

    Examples
    --------
    >>> jsd_from_cross_entropy(math.log(4), n_domains=4)
    0.0
    """
    if n_domains < 1:
        raise ValueError(f"Expected at least 1 domain, got {n_domains}.")
    return math.log(n_domains) - cross_entropy


def _distributions(P: ArrayLike) -> NDArray[np.float64]:
    """Return `P` as float64 of shape (N, K), or report the row that is not a distribution."""
    array = np.asarray(P, dtype=np.float64)
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"Expected distributions of shape (N, K), one per row; got shape {array.shape}.")
    if not np.isfinite(array).all() or (array < 0).any():
        row = int(np.flatnonzero((~np.isfinite(array) | (array < 0)).any(axis=1))[0])
        raise ValueError(f"Expected probabilities; row {row} has a negative or non-finite value.")
    sums = array.sum(axis=1)
    wrong = np.flatnonzero(np.abs(sums - 1) > _SUM_TOLERANCE)
    if len(wrong):
        row = int(wrong[0])
        raise ValueError(f"Expected every row to sum to 1; row {row} sums to {sums[row]:.6g}.")
    return array
