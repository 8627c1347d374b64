"""Class biases of domains with labels."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from multidomain.methods.data import Examples
from multidomain.methods.priors.alignment import align_to_prior

_POOLED_ROWS = 20.0  # rows of a domain that all domains together are worth
_MOST_ROWS = 50_000  # of a domain; more would say the same
_TOWARDS_POOLED = 0.25  # how far the log-prior of a domain is moved towards that of all domains


def class_biases(logits: np.ndarray, labelled: Examples) -> dict[int, np.ndarray]:
    r"""Return the biases of each domain with which its predictions follow the class prior of its labels.

    The bias that a model learns in a domain with uneven classes is multiplied by a temperature, which it is not meant
    for, so that the frequent classes are predicted too often. With :math:`z_i` the logits of rows that the model has
    not learnt from, and :math:`\pi` the class prior of their labels, the bias :math:`b` is such that

    .. math::
        \frac1n \sum_i \mathrm{softmax}(z_i + b)_c = \pi_c

    That of a domain is then moved a little towards the prior of all domains: this costs no accuracy, which is flat near
    its optimum, and finds more rows of rare classes. Few rows draw it towards the bias of all domains, and one that is
    no larger than its error is 0 (James and Stein 1961).

    Parameters
    ----------
    logits
        Calibrated, shape (rows, classes).
    labelled
        Their labels, weights and domains.
    """
    everywhere = _some(np.arange(len(logits)))
    pooled_prior = _prior(labelled, everywhere, np.full(logits.shape[1], 1 / logits.shape[1]))
    pooled = _aligning(logits, labelled, everywhere, pooled_prior)
    of_domain = {}
    for d in np.unique(labelled.d):
        rows = _some(np.flatnonzero(labelled.d == d))
        prior = _prior(labelled, rows, pooled_prior)
        own = _aligning(logits, labelled, rows, prior) + _TOWARDS_POOLED * _centred(np.log(pooled_prior / prior))
        of_domain[int(d)] = (len(rows) * own + _POOLED_ROWS * pooled) / (len(rows) + _POOLED_ROWS)
    return of_domain


def _some(rows: np.ndarray) -> np.ndarray:
    """Return at most `_MOST_ROWS` of the rows, at random."""
    return rows if len(rows) <= _MOST_ROWS else np.random.default_rng(0).choice(rows, _MOST_ROWS, replace=False)


def _prior(labelled: Examples, rows: np.ndarray, guess: np.ndarray) -> np.ndarray:
    """Return the weighted shares of the classes, with a guess that counts as one row more, so that none is 0."""
    assert labelled.y is not None
    weight = None if labelled.weight is None else labelled.weight[rows]
    shares = np.bincount(labelled.y[rows], weight, minlength=len(guess))
    return (len(rows) * shares / shares.sum() + guess) / (len(rows) + 1)


def _aligning(logits: np.ndarray, labelled: Examples, rows: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Return the biases that align predictions to a prior, as far as they are larger than chance makes them."""
    weight = None if labelled.weight is None else labelled.weight[rows]
    aligned = align_to_prior(logits[rows], prior, weight)
    bias, p = _centred((aligned - logits[rows])[0]), softmax(aligned, axis=1)
    chi_square = (p @ bias**2 - (p @ bias) ** 2).sum()  # expected without a bias: one for each class but the last
    return bias * max(0.0, 1 - (len(bias) - 1) / max(chi_square, 1e-12))


def _centred(bias: np.ndarray) -> np.ndarray:
    return bias - bias.mean()
