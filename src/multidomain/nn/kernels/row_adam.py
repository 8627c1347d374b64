"""Adam for weight matrices of which a step touches few rows, equal to dense Adam.

In dense Adam a row without a gradient still moves, by its momentum, for some two hundred steps. That movement depends
only on the row's moments and the number of steps, so it can be caught up when the row is next read. The missed update
is the sum over the steps t = s + 1, ..., s + n after the last update s,

    lr * sum_t (beta1^(t-s) m / (1 - beta1^t)) / (sqrt(beta2^(t-s) v / (1 - beta2^t)) + eps)
        = lr * m * sum_t a_t / (sqrt(v) / z_t + eps) = lr * m * sum_t (a_t z_t) / (sqrt(v) + eps z_t),

a function of sqrt(v) that two terms of the same form, alpha / (sqrt(v) + eps * zeta), match in four moments (the
two-point Gauss quadrature of the weights a_t z_t at the points z_t). Without eps this is exact; with it, the error is
far below rounding unless sqrt(v) is of the order of eps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from multidomain.kernels.compiled import compiled

_MOST_STEPS = 256  # beta1^256 is 2e-12: later steps do not move a weight
_CACHED = 1024  # rows last updated in the same step have missed the same steps


class RowAdam(Optimizer):
    """Adam that reads and writes only the rows of a batch.

    It uses the gradients stored by `row_sum_with_row_gradient`. Rows must be brought up to date with `refresh` before
    they are read, and all of them with `flush` before the weights are used elsewhere. CPU only.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})
        self.zero_grad()
        for p in self._params():
            self.state[p] = {
                "step": torch.zeros((), dtype=torch.int64),
                "updated": torch.zeros(len(p), dtype=torch.int64),  # step at which a row was last up to date
                "exp_avg": torch.zeros_like(p),
                "exp_avg_sq": torch.zeros_like(p),
            }

    def _params(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    @torch.no_grad()
    def refresh(self, p: Tensor, rows: Tensor) -> None:
        """Bring some rows up to date; duplicates are allowed."""
        group, state = self.param_groups[0], self.state[p]
        _make_up(_arrays(p, state), rows.numpy(), int(state["step"]), _adam(group))

    def flush(self) -> None:
        """Bring all rows up to date."""
        for p in self._params():
            self.refresh(p, torch.arange(len(p)))

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update the rows that have a gradient."""
        group = self.param_groups[0]
        for p in self._params():
            state = self.state[p]
            state["step"] += 1
            if p.row_gradient is None:  # type: ignore[attr-defined]
                continue
            rows, gradient = p.row_gradient  # type: ignore[attr-defined]
            _update(_arrays(p, state), rows.numpy(), gradient.numpy(), int(state["step"]), _adam(group))

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients."""
        for p in self._params():
            p.row_gradient = None  # type: ignore[attr-defined]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state; unlike in the base class, integers stay integers."""
        for i, p in enumerate(self._params()):
            for name, value in state_dict["state"].get(i, {}).items():
                self.state[p][name].copy_(value)


def _arrays(p: Tensor, state: dict[str, Tensor]) -> tuple[np.ndarray, ...]:
    return tuple(t.detach().numpy() for t in (p, state["exp_avg"], state["exp_avg_sq"], state["updated"]))


def _adam(group: dict[str, Any]) -> tuple[float, float, float, float]:
    return (group["lr"], *group["betas"], group["eps"])


@compiled
def _missed(terms, s, n, adam):  # type: ignore[no-untyped-def]
    """Fill in the two terms that replace `n` missed steps after step `s`, and the decay of the moments."""
    lr, beta1, beta2, eps = adam
    m0, m1, m2, m3 = 0.0, 0.0, 0.0, 0.0
    decay1, decay2, power1, power2 = 1.0, 1.0, beta1**s, beta2**s
    for _ in range(min(n, _MOST_STEPS)):
        decay1 *= beta1
        decay2 *= beta2
        power1 *= beta1
        power2 *= beta2
        z = math.sqrt((1 - power2) / decay2)
        weight = decay1 / (1 - power1) * z
        m0 += weight
        m1 += weight * z
        m2 += weight * z * z
        m3 += weight * z * z * z
    spread = m0 * m2 - m1 * m1
    if spread <= 1e-12 * m0 * m2:  # one point, or points too close to tell apart
        z1, z2, a1, a2 = m1 / m0, m1 / m0, m0, 0.0
    else:
        b = (m1 * m2 - m0 * m3) / spread
        c = (m1 * m3 - m2 * m2) / spread
        root = math.sqrt(max(b * b - 4 * c, 0.0))
        z1, z2 = (-b - root) / 2, (-b + root) / 2
        a2 = (m1 - m0 * z1) / (z2 - z1)
        a1 = m0 - a2
    terms[0], terms[1], terms[2], terms[3] = lr * a1, eps * z1, lr * a2, eps * z2
    terms[4] = beta1**n if n < _MOST_STEPS else 0.0
    terms[5] = beta2**n


@compiled
def _make_up(arrays, rows, step, adam):  # type: ignore[no-untyped-def]
    """Apply the missed updates of rows up to and including `step`."""
    w, m, v, updated = arrays
    cached = np.full(_CACHED, -1, np.int64)
    terms = np.empty((_CACHED, 6), w.dtype)  # alpha and eps * zeta of both terms, beta1^n, beta2^n
    for i in range(len(rows)):
        r = rows[i]
        s = updated[r]
        if s == step:
            continue
        updated[r] = step
        if s == 0:  # never had a gradient
            continue
        slot = s % _CACHED
        if cached[slot] != s:
            cached[slot] = s
            _missed(terms[slot], s, step - s, adam)
        a1, e1, a2, e2, decay1, decay2 = terms[slot]
        w_r, m_r, v_r = w[r], m[r], v[r]
        for j in range(w.shape[1]):
            root = np.sqrt(v_r[j])
            w_r[j] -= m_r[j] * (a1 / (root + e1) + a2 / (root + e2))
            m_r[j] *= decay1
            v_r[j] *= decay2


@compiled
def _update(arrays, rows, gradient, step, adam):  # type: ignore[no-untyped-def]
    """Take an Adam step on rows that are up to date."""
    w, m, v, updated = arrays
    lr, beta1, beta2, eps = adam
    c = np.empty(7, w.dtype)  # in the weights' precision, as in dense Adam
    c[0], c[1], c[2], c[3] = beta1, 1 - beta1, beta2, 1 - beta2
    c[4], c[5], c[6] = lr / (1 - beta1**step), 1 / math.sqrt(1 - beta2**step), eps
    b1, b1_rest, b2, b2_rest, size, root_scale, small = c
    for i in range(len(rows)):
        r = rows[i]
        updated[r] = step
        w_r, m_r, v_r, g_r = w[r], m[r], v[r], gradient[i]
        for j in range(w.shape[1]):
            g = g_r[j]
            m_j = b1 * m_r[j] + b1_rest * g
            v_j = b2 * v_r[j] + b2_rest * g * g
            m_r[j] = m_j
            v_r[j] = v_j
            w_r[j] -= size * m_j / (np.sqrt(v_j) * root_scale + small)
