"""Significance tests: seeds against a published figure, and two of our systems on the same test rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from multidomain.errors import DataError, quoted


@dataclass(frozen=True)
class PairedTest:
    """How much better the first of two systems is than the second.

    Attributes
    ----------
    difference
        Of their accuracies, as a fraction: the mean over domains.
    standard_error
        Of the difference.
    p
        Two-sided.
    """

    difference: float
    standard_error: float
    p: float


def published_test(averages: Sequence[float], published: float) -> float | None:
    """Return the two-sided p of a one-sample t-test of seeds' averages against a published figure.

    Only the seeds are random in it: the test rows and the published figure are taken as they are.

    Parameters
    ----------
    averages
        One for each seed.

    Returns
    -------
    float or None
        None when nothing varies: fewer than two seeds, or all of them equal.

    Examples
    --------
    >>> round(published_test([85.5, 85.7, 85.9], 85.2), 3)
    0.049
    """
    if len(averages) < 2 or np.ptp(averages) < 1e-9:  # equal up to the order of summation
        return None
    return float(stats.ttest_1samp(averages, published).pvalue)


def paired_test(first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray]) -> PairedTest:
    """Compare two systems row by row, with equal weight for each domain.

    With ``x_dr`` the difference of the two in row r of domain d, ``n_d`` the domain's rows and N the domains::

        difference = 1/N sum_d mean_r x_dr        standard_error = 1/N sqrt(sum_d var_r x_dr / n_d)

    and p is that of a normal variable ``difference / standard_error``, which thousands of rows justify.

    Parameters
    ----------
    first, second
        By domain, how often each test row was predicted correctly, from 0 to 1: the mean over seeds. The rows must
        be the same ones in the same order.

    Examples
    --------
    >>> right, wrong = np.ones(4), np.array([1.0, 1.0, 0.0, 0.0])
    >>> paired_test({"books": right}, {"books": wrong}).difference
    0.5
    """
    sizes, other_sizes = ({d: len(rows) for d, rows in system.items()} for system in (first, second))
    if sizes != other_sizes or not sizes or min(sizes.values()) < 2:
        raise DataError(
            f"A paired test needs the same rows of both systems, two or more in each domain; got {sizes} and "
            f"{other_sizes} in the domains {quoted(sizes.keys() | other_sizes.keys())}."
        )
    differences = [np.asarray(first[d], dtype=float) - np.asarray(second[d], dtype=float) for d in first]
    difference = float(np.mean([rows.mean() for rows in differences]))
    # The domains' rows are independent, so the variances of their means add up.
    variances = [rows.var(ddof=1) / len(rows) for rows in differences]
    standard_error = float(np.sqrt(np.sum(variances)) / len(differences))
    if standard_error == 0:  # every row differs by the same
        return PairedTest(difference, 0.0, 1.0 if difference == 0 else 0.0)
    return PairedTest(difference, standard_error, float(2 * stats.norm.sf(abs(difference) / standard_error)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for being many (Holm 1979), in the order given.

    The i-th smallest of m is multiplied by m - i + 1; none may be smaller than the one before it, nor exceed 1.

    Examples
    --------
    >>> holm([0.04, 0.01, 0.03])
    [0.06, 0.03, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(p_values), 0, -1)
    corrected = np.empty(len(p_values))
    corrected[order] = np.minimum(np.maximum.accumulate(np.asarray(p_values, dtype=float)[order] * factors), 1.0)
    return [float(p) for p in corrected]
