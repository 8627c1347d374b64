"""Class priors from third moments: how three parts of a document vary together."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

_PARTITIONS = 20


def third_moment_prior(x: csr_matrix, weight: np.ndarray, seed: int = 0) -> float:
    r"""Return the share of a class among rows, from a linear score for it, however the score is shifted or scaled.

    The columns are divided at random into three parts, whose shares :math:`z_1, z_2, z_3` of the score are centred. If
    they are independent given the class, with a distance :math:`\delta_v` between the class means,

    .. math::
        E[z_u z_v] = \pi (1 - \pi) \delta_u \delta_v, \qquad
        E[z_1 z_2 z_3] = \pi (1 - \pi)(1 - 2 \pi) \delta_1 \delta_2 \delta_3, \qquad
        \frac{E[z_1 z_2 z_3]}{\sqrt{E[z_1 z_2] E[z_1 z_3] E[z_2 z_3]}} = \frac{1 - 2 \pi}{\sqrt{\pi (1 - \pi)}}

    so the share follows without a label and without a threshold. Moments are averaged over several divisions. Words are
    not quite independent given the class, which draws the result towards one half.

    Parameters
    ----------
    x
        The rows.
    weight
        The weight of each column in the score of the class.

    References
    ----------
    A. Jaffe, B. Nadler and Y. Kluger. Estimating the Accuracies of Multiple Classifiers Without Labeled Data. AISTATS
    2015.
    """
    random = np.random.default_rng(seed)
    third, product = 0.0, 0.0
    for _ in range(_PARTITIONS):
        part = random.integers(0, 3, len(weight))
        z = x @ (weight[:, None] * (part[:, None] == np.arange(3)))  # (rows, 3)
        z -= z.mean(axis=0)
        covariance = z.T @ z / len(z)
        third += float(z.prod(axis=1).mean()) / _PARTITIONS
        product += covariance[0, 1] * covariance[0, 2] * covariance[1, 2] / _PARTITIONS
    if product <= 0:  # no common signal
        return 0.5
    ratio = third / product**0.5
    return float(0.5 * (1 - ratio / np.sqrt(ratio**2 + 4)))
