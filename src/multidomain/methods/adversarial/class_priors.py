"""An adversary that takes the class priors of the domains into account."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from multidomain.methods.data import TrainingData
from multidomain.methods.priors.estimate import PriorEstimate, labelled_prior

_MOST = 5.0


def prior_ratios(data: TrainingData, priors: Mapping[int, PriorEstimate]) -> Tensor:
    r"""Return how much a row of each class counts in each domain, so that all domains have the labelled class prior.

    .. math:: w_d(c) = \left( \frac{\pi(c)}{\pi_d(c)} \right)^{\kappa_d}

    with the certainty :math:`\kappa_d` of the prior of a domain without labels, and 1 where it has labels; within 1/5
    and 5, and 1 for a class that a labelled domain does not have. Features that make domains with other class priors
    look alike cannot tell the classes apart in all of them.

    Returns
    -------
    Tensor
        Shape (domains, classes).

    References
    ----------
    H. Zhao, R. T. des Combes, K. Zhang and G. J. Gordon. On Learning Invariant Representations for Domain Adaptation.
    ICML 2019.
    """
    K = data.task.n_classes
    common = labelled_prior(data.labelled, K)
    ratios = np.ones((len(data.task.domains), K))
    for d in data.task.labelled:
        own = data.labelled.select(data.labelled.d == d)
        assert own.y is not None
        present = np.isin(np.arange(K), own.y)
        ratios[d] = np.where(present, common / labelled_prior(own, K), 1.0)
    for d, estimate in priors.items():
        ratios[d] = (common / estimate.prior) ** estimate.certainty
    return torch.from_numpy(ratios.clip(1 / _MOST, _MOST)).float()
