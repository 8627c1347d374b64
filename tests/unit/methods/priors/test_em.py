"""Where the bias that a prior needs is that prior's own log-odds, EM (Saerens et al. 2002) has its fixed point."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit, logit

from multidomain.methods.priors.alignment import bias_for_share


def em_share(p: np.ndarray) -> float:
    """EM by loops, on probabilities that were calibrated under equal priors."""
    share = 0.5
    for _ in range(2000):
        share = float(np.mean([share * q / (share * q + (1 - share) * (1 - q)) for q in p]))
    return share


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_the_location_of_logits_and_em_agree(share: float):
    random = np.random.default_rng(0)
    y = random.random(300) < share
    odds = 2 * (np.where(y, 1.0, -1.0) + random.normal(size=300))  # calibrated: two unit normals at -1 and 1
    offset = brentq(lambda delta: bias_for_share(odds, float(expit(delta))) - delta, -6, 6)
    found = em_share(expit(odds))
    assert expit(offset) == pytest.approx(found, abs=1e-3)
    assert found == pytest.approx(share, abs=0.1) and abs(offset - logit(share)) < 1
