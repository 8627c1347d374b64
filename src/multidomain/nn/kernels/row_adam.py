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
from multidomain.nn.collectives import in_shared_step, rows_of_all
from multidomain.nn.kernels.row_sum import RowGradient
from multidomain.nn.pages import move_to_large_pages, zeros_like
from multidomain.nn.sparse import SparseBatch

_MOST_STEPS = 256  # beta1^256 is 2e-12: later steps do not move a weight
_CACHED = 1024  # rows last updated in the same step have missed the same steps


class RowAdam(Optimizer):
    """Adam that reads and writes only the rows of a batch.

    `row_sum` reads rows as they are when up to date, and its gradient is the one that `step` uses. Whatever else reads
    rows brings them up to date with `refresh` before, and all of them with `flush`. CPU only.
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
        self._places = {p: np.zeros(len(p), np.int64) for p in self._params()}  # scratch memory for transposing a batch
        for p in self._params():
            move_to_large_pages(p)
            self.state[p] = {
                "step": torch.zeros((), dtype=torch.int64),
                "updated": torch.zeros(len(p), dtype=torch.int64),  # step at which a row was last up to date
                "exp_avg": zeros_like(p),
                "exp_avg_sq": zeros_like(p),
            }

    def _params(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    def row_sum(self, x: SparseBatch, p: Tensor, copies: int = 1, dropout: float = 0.0) -> Tensor:
        """Return the product of a sparse batch, after dropout, and the parameter, whose rows are brought up to date.

        Parameters
        ----------
        copies
            The parameter is this many matrices of the same height, one below the other, and the batch has as many rows
            for each.
        """
        return _RowSum.apply(p, x, copies, dropout, self)

    def sum_rows(self, p: Tensor, rows: Tensor, batch: SparseBatch, n_sums: int) -> Tensor:
        """Return `row_sum` of the transpose of `batch`, whose rows belong to `rows` of the parameter."""
        sums = p.new_zeros(n_sums, p.shape[1])
        if in_shared_step():
            self.refresh(p, rows)
        state, entries = self.state[p], _entries(batch)
        _add_rows(_arrays(p, state), rows.numpy(), entries, int(state["step"]), self._adam, sums.numpy())
        return sums

    def transposed(self, x: SparseBatch, p: Tensor, copies: int, dropout: float) -> tuple[Tensor, SparseBatch]:
        """Return the rows of the parameter that a batch names, each once, and the transposed batch, a row for each.

        For copies and dropout see `row_sum`.
        """
        random = (torch.rand(len(x.value)) if dropout else x.value.new_ones(0)).numpy()
        each = (max(len(x) // copies, 1), len(p) // copies)
        rows, *places = map(torch.from_numpy, _transpose(_entries(x), each, random, dropout, self._places[p]))
        return rows, SparseBatch(*places)

    @torch.no_grad()
    def refresh(self, p: Tensor, rows: Tensor) -> None:
        """Bring some rows up to date; duplicates are allowed.

        Processes that train together do so for the rows of all: what is made up for at other steps rounds otherwise,
        and their weights would part.
        """
        self._refresh(p, rows_of_all(rows))

    def _refresh(self, p: Tensor, rows: Tensor) -> None:
        state = self.state[p]
        _refresh(_arrays(p, state), rows.numpy(), int(state["step"]), self._adam)

    @torch.no_grad()
    def flush(self) -> None:
        """Bring all rows up to date."""
        for p in self._params():
            self._refresh(p, torch.arange(len(p)))

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update the rows that have a gradient."""
        for p in self._params():
            state, gradient = self.state[p], p.row_gradient  # type: ignore[attr-defined]
            state["step"] += 1
            if gradient is not None:
                update_rows((p, state["exp_avg"], state["exp_avg_sq"]), gradient, int(state["step"]), self._adam)
                state["updated"].numpy()[gradient.rows.numpy()] = int(state["step"])

    @property
    def _adam(self) -> tuple[float, float, float, float]:
        group = self.param_groups[0]
        return (group["lr"], *group["betas"], group["eps"])

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients."""
        for p in self._params():
            p.row_gradient = None  # type: ignore[attr-defined]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state; unlike in the base class, integers stay integers."""
        for i, p in enumerate(self._params()):
            for name, value in state_dict["state"].get(i, {}).items():
                self.state[p][name].copy_(value)


class _RowSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, p: Tensor, x: SparseBatch, copies: int, dropout: float, optimiser: RowAdam) -> Tensor:
        ctx.p = p
        ctx.rows, ctx.batch = optimiser.transposed(x, p, copies, dropout)
        return optimiser.sum_rows(p, ctx.rows, ctx.batch, len(x))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, ...]:
        assert ctx.p.row_gradient is None, "one pass through the first layer in each step"
        ctx.p.row_gradient = RowGradient(ctx.rows, ctx.batch, gradient.contiguous())
        return None, None, None, None, None


def update_rows(
    weights: tuple[Tensor, Tensor, Tensor], gradient: RowGradient, step: int, adam: tuple[float, float, float, float]
) -> None:
    """Take step number `step` of Adam on the rows that have a gradient, which are up to date.

    Parameters
    ----------
    weights
        A parameter and its two moments; of more than two dimensions, all but the last count rows.
    adam
        Learning rate, both betas, eps.
    """
    arrays = tuple(t.detach().view(-1, t.shape[-1]).numpy() for t in weights)
    rows, of_output = gradient.rows.numpy(), gradient.of_output.numpy()
    _update(arrays, rows, _entries(gradient.batch), of_output, step, adam)


def _entries(x: SparseBatch) -> tuple[np.ndarray, ...]:
    return x.index.numpy(), x.value.numpy(), x.offset.numpy()


def _arrays(p: Tensor, state: dict[str, Tensor]) -> tuple[np.ndarray, ...]:
    return tuple(t.detach().numpy() for t in (p, state["exp_avg"], state["exp_avg_sq"], state["updated"]))


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
def _moved(terms, of_step, s, step, adam):  # type: ignore[no-untyped-def]
    """Return the terms of `_missed` for rows last updated in step `s`, computed once for all of them."""
    slot = s % _CACHED
    if of_step[slot] != s:
        of_step[slot] = s
        _missed(terms[slot], s, step - s, adam)
    return terms[slot, 0], terms[slot, 1], terms[slot, 2], terms[slot, 3], terms[slot, 4], terms[slot, 5]


# Rows are indexed and not passed to functions: with a view for each of them, a narrow row takes four times as long.
@compiled
def _make_up(w, m, v, r, terms):  # type: ignore[no-untyped-def]
    """Apply the missed updates of a row."""
    a1, e1, a2, e2, decay1, decay2 = terms
    for j in range(w.shape[1]):
        root = np.sqrt(v[r, j])
        r1, r2 = root + e1, root + e2
        w[r, j] -= m[r, j] * ((a1 * r2 + a2 * r1) / (r1 * r2))
        m[r, j] *= decay1
        v[r, j] *= decay2


@compiled
def _transpose(entries, each, random, dropout, place):  # type: ignore[no-untyped-def]
    """Return the weight rows of a batch, ascending, as memory is read faster, and the transposed batch.

    `each` is the number of batch rows and of weight rows of a copy; `place` is zero for all weight rows, before and
    after.
    """
    index, value, offset = entries
    row_of, n = np.empty(len(index), np.int64), 0
    rows = np.empty(len(index), np.int64)
    for b in range(len(offset) - 1):
        first = b // each[0] * each[1]
        for e in range(offset[b], offset[b + 1]):
            row_of[e] = -1
            if not dropout or random[e] >= dropout:
                row_of[e] = r = first + index[e]
                if place[r] == 0:
                    rows[n] = r
                    n += 1
                place[r] += 1
    rows = np.flatnonzero(place) if len(place) < 16 * n else np.sort(rows[:n])
    end, at = np.empty(n + 1, np.int64), 0
    for i in range(n):
        end[i] = at
        at += place[rows[i]]
        place[rows[i]] = end[i]
    end[n] = at
    batch_row, values = np.empty(at, np.int64), np.empty(at, value.dtype)
    kept = value.dtype.type(1 - dropout)
    for b in range(len(offset) - 1):
        for e in range(offset[b], offset[b + 1]):
            if row_of[e] >= 0:
                k = place[row_of[e]]
                place[row_of[e]] += 1
                batch_row[k], values[k] = b, value[e] / kept
    for r in rows:
        place[r] = 0
    return rows, batch_row, values, end


@compiled
def _add_rows(arrays, rows, entries, step, adam, sums):  # type: ignore[no-untyped-def]
    """Bring rows up to date and add them to the sums that they belong to: each is read once."""
    w, m, v, updated = arrays
    batch_row, value, offset = entries
    terms, of_step = np.empty((_CACHED, 6), w.dtype), np.full(_CACHED, -1, np.int64)
    for i in range(len(rows)):
        r = rows[i]
        if 0 < updated[r] < step:  # 0: it never had a gradient
            _make_up(w, m, v, r, _moved(terms, of_step, updated[r], step, adam))
        updated[r] = step
        for e in range(offset[i], offset[i + 1]):
            b, x = batch_row[e], value[e]
            for j in range(w.shape[1]):
                sums[b, j] += x * w[r, j]


@compiled
def _refresh(arrays, rows, step, adam):  # type: ignore[no-untyped-def]
    """Apply the missed updates of rows up to and including `step`."""
    w, m, v, updated = arrays
    terms, of_step = np.empty((_CACHED, 6), w.dtype), np.full(_CACHED, -1, np.int64)
    for r in rows:
        if 0 < updated[r] < step:
            _make_up(w, m, v, r, _moved(terms, of_step, updated[r], step, adam))
        updated[r] = step


@compiled
def _update(arrays, rows, entries, of_output, step, adam):  # type: ignore[no-untyped-def]
    """Take an Adam step on rows; the gradient exists for one row at a time."""
    w, m, v = arrays
    batch_row, value, offset = entries
    lr, beta1, beta2, eps = adam
    c = np.empty(7, w.dtype)  # in the weights' precision, as in dense Adam
    c[0], c[1], c[2], c[3] = beta1, 1 - beta1, beta2, 1 - beta2
    c[4], c[5], c[6] = lr / (1 - beta1**step), 1 / math.sqrt(1 - beta2**step), eps
    b1, b1_rest, b2, b2_rest, size, root_scale, small = c
    g = np.empty(w.shape[1], w.dtype)
    for i in range(len(rows)):
        r = rows[i]
        g[:] = 0
        for e in range(offset[i], offset[i + 1]):
            b, x = batch_row[e], value[e]
            for j in range(w.shape[1]):
                g[j] += x * of_output[b, j]
        for j in range(w.shape[1]):
            m_j = b1 * m[r, j] + b1_rest * g[j]
            v_j = b2 * v[r, j] + b2_rest * g[j] * g[j]
            m[r, j] = m_j
            v[r, j] = v_j
            w[r, j] -= size * m_j / (np.sqrt(v_j) * root_scale + small)
