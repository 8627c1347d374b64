"""An adversary that takes the class priors of the domains into account."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from multidomain.methods.data import Examples, TrainingData
from multidomain.methods.priors.estimate import PriorEstimate, labelled_prior


def unlabelled_text(data: TrainingData) -> Examples:
    """Return the text of the domains without labels."""
    return data.text.select(~np.isin(data.text.d, data.task.labelled))


def class_weights(data: TrainingData, priors: Mapping[int, PriorEstimate]) -> Tensor:
    r"""Return how much a row of each class counts in each domain, so that all domains have the labelled class prior.

    .. math:: w_d(c) = \left( \frac{\pi(c)}{\pi_d(c)} \right)^{\kappa_d}

    with the certainty :math:`\kappa_d` of the prior of a domain without labels, and 1 where it has labels. Features
    that make domains with other class priors look alike cannot tell the classes apart in all of them.

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
    usual = labelled_prior(data.labelled, K)
    weights = np.ones((len(data.task.domains), K))
    for d in data.task.labelled:
        weights[d] = usual / labelled_prior(data.labelled.select(data.labelled.d == d), K)
    for d, estimate in priors.items():
        weights[d] = (usual / estimate.prior) ** estimate.certainty
    return torch.from_numpy(weights).float()
