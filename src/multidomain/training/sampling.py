"""Endless streams of mini-batches whose complete state is one number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from multidomain.methods.data import TrainingData
from multidomain.methods.gradient import Batch
from multidomain.metrics import rows_of_each
from multidomain.nn import kernels
from multidomain.nn.collectives import share
from multidomain.nn.sparse import SparseBatch, SparseMatrix

_BLOCK = 64  # mini-batches of each domain planned at a time


class DomainStream:
    """Mini-batches of `batch_size` rows of every domain, endlessly.

    Each domain is gone through in a new random order again and again, so a domain smaller than a
    mini-batch is repeated within it. What comes is decided by the seed and by how many mini-batches were
    drawn before (`drawn`): a checkpoint needs no more than that number.

    Parameters
    ----------
    x
        All rows.
    pools
        For each domain, pools of row numbers. One pool is drawn from as it is; several (one for each
        class) are brought to the size of the largest by repetition, so that classes come equally often.
    y
        Class code of each row, where labels may be seen.
    seed
        Streams with different seeds are independent.
    weight
        Weight of each row, if they differ.
    share
        Number of this process, and of all that train together: each gets its part of every mini-batch, which is as
        large for all.
    """

    def __init__(
        self,
        x: SparseMatrix,
        pools: Sequence[Sequence[np.ndarray]],
        y: np.ndarray | None,
        batch_size: int,
        seed: Sequence[int],
        weight: np.ndarray | None = None,
        share: tuple[int, int] = (0, 1),
    ):
        self._x = x
        self._pools = pools
        self._y = y
        self._weight = None if weight is None else weight.astype(np.float32)
        self._batch_size = batch_size
        part = batch_size // share[1]
        self._own = slice(share[0] * part, (share[0] + 1) * part)
        self._seed = tuple(seed)
        self._orders: list[tuple[int, np.ndarray]] = [(-1, np.empty(0, int))] * len(pools)
        self._plan = np.empty((0, len(pools), batch_size), int)  # mini-batches from `_plan_start` on
        self._plan_start = 0
        self.drawn = 0

    def sample(self, times: int = 1) -> Batch:
        """Draw `times` mini-batches of each domain; rows are ordered by draw, then by domain."""
        rows = self.next_rows(times)[:, :, self._own]
        return Batch(self._taken(rows), self._of(self._y, rows), self._of(self._weight, rows))

    def _taken(self, rows: np.ndarray) -> SparseBatch:
        if not kernels.run_on(self._x.device):
            return self._x.take(rows)
        # Imported here: others than networks must not load the compiler.
        from multidomain.nn.kernels.take import take_rows

        return take_rows(self._x.all(), rows)

    def _of(self, values: np.ndarray | None, rows: np.ndarray) -> Tensor | None:
        """Return the values of rows, shape (times * domains, batch_size)."""
        return None if values is None else torch.as_tensor(values[rows]).to(self._x.device).flatten(0, 1)

    def next_rows(self, times: int = 1) -> np.ndarray:
        """Return the row numbers of the next mini-batches, shape (times, domains, batch_size)."""
        begin = self.drawn - self._plan_start
        if begin < 0 or begin + times > len(self._plan):
            self._plan_start, begin = self.drawn, 0
            size = max(times, _BLOCK)
            columns = [self._rows_of(d, self.drawn, self.drawn + size) for d in range(len(self._pools))]
            self._plan = np.stack(columns, axis=1)
        self.drawn += times
        return self._plan[begin : begin + times]

    def _rows_of(self, d: int, first: int, end: int) -> np.ndarray:
        """Rows of mini-batches `first` to `end` of domain `d`, shape (end - first, batch_size)."""
        wanted, stop = first * self._batch_size, end * self._batch_size
        size = max(len(pool) for pool in self._pools[d]) * len(self._pools[d])
        pieces = []
        while wanted < stop:
            lap, start = divmod(wanted, size)
            piece = self._order(d, lap)[start : start + stop - wanted]
            pieces.append(piece)
            wanted += len(piece)
        return np.concatenate(pieces).reshape(end - first, self._batch_size)

    def _order(self, d: int, lap: int) -> np.ndarray:
        """Order in which domain `d` is gone through for the `lap`-th time."""
        if self._orders[d][0] != lap:
            random = np.random.default_rng([*self._seed, d, lap])
            largest = max(len(pool) for pool in self._pools[d])
            # np.resize repeats a shuffled pool until it is as long as the largest.
            pools = [np.resize(random.permutation(pool), largest) for pool in self._pools[d]]
            self._orders[d] = (lap, random.permutation(np.concatenate(pools)))
        return self._orders[d][1]


def labelled_stream(
    data: TrainingData, batch_size: int, seed: int, balanced: bool, device: torch.device | str = "cpu"
) -> DomainStream:
    """X: labelled rows of the labelled domains; `balanced` draws a domain's classes equally often."""
    d, y, weight = data.labelled.d, data.labelled.y, data.labelled.weight
    assert y is not None
    of_domain = rows_of_each(d)
    pools = []
    for code in data.task.labelled:
        rows = of_domain[code]
        pools.append([rows[y[rows] == c] for c in np.unique(y[rows])] if balanced else [rows])
    # Weighted means do not depend on the scale of the weights, and single precision holds this one.
    relative = None if weight is None else (weight / weight.max()).clip(1e-30)
    return DomainStream(SparseMatrix(data.labelled.x, device), pools, y, batch_size, (seed, 0), relative, share())


def text_stream(data: TrainingData, batch_size: int, seed: int, device: torch.device | str = "cpu") -> DomainStream:
    """U: the text of all domains, without labels."""
    of_domain = rows_of_each(data.text.d)
    pools = [[of_domain[code]] for code in range(len(data.task.domains))]
    return DomainStream(SparseMatrix(data.text.x, device), pools, None, batch_size, (seed, 1), share=share())
