"""Significance tests: seeds against a published figure, and two of our systems on the same test rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from multidomain.errors import DataError, quoted


@dataclass(frozen=True)
class Interval:
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float


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

    @property
    def interval(self) -> Interval:
        """Return the difference with its 95 % interval, by normal approximation."""
        margin = float(stats.norm.ppf(0.975)) * self.standard_error
        return Interval(self.difference, self.difference - margin, self.difference + margin)


@dataclass(frozen=True)
class CombinedTest:
    """How far several systems are from their published figures, all together.

    Attributes
    ----------
    difference, standard_error
        Mean over the systems, in their unit, and its standard error.
    p
        Two-sided.
    """

    difference: float
    standard_error: float
    p: float


def combined_test(differences: Sequence[float], standard_errors: Sequence[float]) -> CombinedTest:
    """Test whether the mean of independent differences is zero, by normal approximation.

    With differences ``x_i`` of standard errors ``s_i``, z is ``sum_i x_i / sqrt(sum_i s_i^2)``: a shortfall that is
    within the error of each system is found if all of them have it.

    Examples
    --------
    >>> round(combined_test([-0.3, -0.3, -0.3, -0.3], [0.2, 0.2, 0.2, 0.2]).p, 4)
    0.0027
    """
    n = len(differences)
    difference = sum(differences) / n
    standard_error = math.hypot(*standard_errors) / n
    return CombinedTest(difference, standard_error, float(2 * stats.norm.sf(abs(difference) / standard_error)))


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


def paired_macro_f1(
    samples: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], resamples: int = 1000, seed: int = 0
) -> Interval:
    """Compare the macro-F1 of two systems by a paired bootstrap over the test rows of each sample.

    Parameters
    ----------
    samples
        Of each, the class codes of its test rows, of shape (rows,), and those that the two systems predict, of shape
        (seeds, rows). Macro-F1 is the mean over seeds, then over samples.

    Examples
    --------
    >>> y = np.array([0, 0, 1, 1])
    >>> paired_macro_f1([(y, y[None], 1 - y[None])])
    Interval(value=1.0, low=1.0, high=1.0)
    """
    rng = np.random.default_rng(seed)
    differences = []
    for y, first, second in samples:
        rows = np.vstack([y, first, second]).astype(np.int64)
        codes = (rows.max() + 1) ** np.arange(len(rows)) @ rows
        _, places, counts = np.unique(codes, return_index=True, return_counts=True)
        patterns = rows[:, places]
        # Rows with the same label and predictions are alike, so a resample is how often it has each pattern.
        drawn = np.vstack([counts, rng.multinomial(len(y), counts / len(y), resamples)])
        f1 = np.stack([_macro_f1(patterns[0], predicted, drawn) for predicted in patterns[1:]])
        differences.append(f1[: len(first)].mean(axis=0) - f1[len(first) :].mean(axis=0))
    observed, *resampled = np.mean(differences, axis=0)
    low, high = np.quantile(resampled, [0.025, 0.975])
    return Interval(float(observed), float(low), float(high))


def _macro_f1(y: np.ndarray, predicted: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return macro-F1 for each row of counts of (label, prediction) patterns, over the classes that occur in it."""
    total, occurring = np.zeros(len(counts)), np.zeros(len(counts))
    for c in np.union1d(y, predicted):
        hits, size = counts @ ((y == c) & (predicted == c)), counts @ ((y == c).astype(int) + (predicted == c))
        total += 2 * hits / np.maximum(size, 1)
        occurring += size > 0
    return total / occurring


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
