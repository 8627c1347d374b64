"""Domain invariance of shared features, measured by Theorem 1 of the paper."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multidomain.errors import TrainingError
from multidomain.objectives.divergence import jsd_from_cross_entropy


@dataclass(frozen=True)
class Invariance:
    """How well a fresh discriminator predicts the domain.

    Attributes
    ----------
    nats
        Lower estimate of the Jensen-Shannon divergence among the domains' shared features: 0 if they
        are indistinguishable, log N if they are fully separable.
    accuracy, chance
        Accuracy of the probe, mean over domains, and 1 / N.
    """

    nats: float
    most: float
    accuracy: float
    chance: float
    rows: int


def measure_invariance(features: np.ndarray, d: np.ndarray, n_domains: int, seed: int = 0) -> Invariance | None:
    """Fit a probe with D's architecture on one half of the rows and score it on the other (decision 8).

    Parameters
    ----------
    features
        Shared features of held-out text, shape (rows, size).
    d
        Domain code of each row.
    n_domains
        N; a domain with fewer than 8 rows cannot be halved and measured.

    Returns
    -------
    Invariance or None
        None if there is one domain only or a domain has too few rows.
    """
    if n_domains < 2 or np.bincount(d, minlength=n_domains).min() < 8:
        return None
    if not np.isfinite(features).all():
        raise TrainingError(
            "The shared features are not finite: training has diverged.",
            "Lower the learning rate ({settings.lr=RATE}).",
        )
    from multidomain.evaluation.probe import probed_domains  # imported here: only networks have shared features

    cross_entropy, accuracy, rows = probed_domains(features, d, n_domains, seed)
    # A probe that always predicts 1/N gives the bound 0, so a worse probe cannot lower it.
    nats = max(0.0, jsd_from_cross_entropy(cross_entropy, n_domains))
    return Invariance(nats, float(np.log(n_domains)), accuracy, 1 / n_domains, rows)
