"""A probe with D's architecture, fitted to predict the domain from given features."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor

from multidomain.nn.heads import Head
from multidomain.objectives.domain import NLL

_ROWS_OF_EACH = 32  # rows of a domain in a mini-batch of the probe
_MAX_UPDATES = 3000
_CHECK_EVERY = 25
_PATIENCE = 12  # checks without a lower cross-entropy


def probed_domains(features: np.ndarray, d: np.ndarray, n_domains: int, seed: int) -> tuple[float, float, int]:
    """Fit a probe on one half of the rows; return its cross-entropy and accuracy on the other, and how many these are.

    Both are averaged within each domain and then over domains.
    """
    random = np.random.default_rng(seed)
    x = torch.from_numpy(np.ascontiguousarray(features, dtype=np.float32))
    fit, stop, score = [], [], []  # of each domain: 40 % fit the probe, 10 % choose among its states, 50 % score
    for code in range(n_domains):
        rows = random.permutation(np.flatnonzero(d == code))
        a, b = int(len(rows) * 0.4), len(rows) // 2
        fit.append(x[rows[:a]])
        stop.append(x[rows[a:b]])
        score.append(x[rows[b:]])
    # Standardised, so that the probe learns equally fast at any scale of the features.
    seen = torch.cat(fit)
    mean, scale = seen.mean(dim=0), seen.std().clamp_min(1e-8)
    fit, stop, score = ([(rows - mean) / scale for rows in part] for part in (fit, stop, score))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        # Dropout helps where the domain shows in many features and there are few rows, and hurts where it shows in one.
        probes = [_fitted_probe(fit, stop, dropout) for dropout in (0.0, 0.4)]
        probe = min(probes, key=lambda fitted: _scores(fitted, stop)[0])
    cross_entropy, accuracy = _scores(probe, score)
    return cross_entropy, accuracy, sum(len(rows) for rows in score)


def _fitted_probe(fit: list[Tensor], stop: list[Tensor], dropout: float) -> Head:
    probe = Head(fit[0].shape[1], len(fit), dropout, norm="all-domains")
    optimiser = torch.optim.Adam(probe.parameters(), lr=1e-3)
    best, best_cross_entropy, waited = copy.deepcopy(probe), float("inf"), 0
    for update in range(1, _MAX_UPDATES + 1):
        probe.train()
        batch = torch.stack([rows[torch.randint(len(rows), (_ROWS_OF_EACH,))] for rows in fit])
        optimiser.zero_grad()
        NLL.J_D(probe(batch)).backward()
        optimiser.step()
        if update % _CHECK_EVERY == 0:
            cross_entropy, _ = _scores(probe, stop)
            waited += 1
            if cross_entropy < best_cross_entropy:
                best, best_cross_entropy, waited = copy.deepcopy(probe), cross_entropy, 0
            if waited == _PATIENCE:
                break
    return best


def _scores(probe: Head, domains: list[Tensor]) -> tuple[float, float]:
    """Cross-entropy and accuracy, averaged within each domain and then over domains."""
    probe.eval()
    cross_entropies, accuracies = [], []
    with torch.inference_mode():
        for code, rows in enumerate(domains):
            logits = probe(rows[None])[0]
            cross_entropies.append(-torch.log_softmax(logits, dim=-1)[:, code].mean().item())
            accuracies.append((logits.argmax(-1) == code).double().mean().item())
    return float(np.mean(cross_entropies)), float(np.mean(accuracies))
