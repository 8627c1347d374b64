"""Activations of frozen layers, computed once for each text of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from multidomain.arrays import empty
from multidomain.nn.encoders.batching import Group, groups_of, rows_as_bytes
from multidomain.nn.sparse import SparseBatch, SparseMatrix
from multidomain.stages import stage


class Activations:
    """The hidden states of texts below the first layer that learns, in half precision.

    They are found by the subwords of a text, so it does not matter who asks: a stream or the dev set. Large ones are in
    a temporary file (decision 32).

    Parameters
    ----------
    matrices
        The texts; equal ones are stored once.
    compute
        Returns the hidden states of a group of texts, shape (texts, places, width).
    width
        Of a hidden state.
    places
        Returns the places of texts that have a hidden state, by the numbers of their subwords.
    """

    def __init__(
        self,
        matrices: Iterable[SparseMatrix],
        compute: Callable[[SparseBatch, Group], Tensor],
        width: int,
        tokens_at_a_time: int,
        places: Callable[[Tensor], Tensor],
    ):
        x, self._number = _distinct(matrices)
        lengths = places(torch.as_tensor(x.lengths))  # on the CPU, as what is stored is
        self._start = torch.zeros(len(lengths) + 1, dtype=torch.int64)
        torch.cumsum(lengths, 0, out=self._start[1:])
        total = int(self._start[-1])
        self._values = torch.from_numpy(empty(total * width, np.float16).reshape(total, width))
        groups = groups_of(x.offset.diff(), tokens_at_a_time)
        for group in stage("output of the frozen layers", groups, len(groups)):
            states = compute(x, group)
            for row, own in zip(group.rows.tolist(), states, strict=True):
                start, end = self._start[row], self._start[row + 1]
                self._values[start:end] = own[: end - start].half()

    def knows(self, keys: Sequence[bytes]) -> bool:
        """Tell whether all of some texts are here."""
        return all(key in self._number for key in keys)

    def take(self, keys: Sequence[bytes], device: torch.device) -> Tensor:
        """Return the hidden states of texts, padded to the longest: (texts, places, width)."""
        rows = torch.tensor([self._number[key] for key in keys])
        start, lengths = self._start[rows], self._start[rows + 1] - self._start[rows]
        place = torch.arange(int(lengths.max()))
        at = start[:, None] + torch.minimum(place, lengths[:, None] - 1)
        return self._values[at].to(device).float()


def _distinct(matrices: Iterable[SparseMatrix]) -> tuple[SparseBatch, dict[bytes, int]]:
    """Return the distinct rows of matrices, and the number of each."""
    number: dict[bytes, int] = {}
    parts = []
    for matrix in matrices:
        x = matrix.all()
        new = []
        for row, key in enumerate(rows_as_bytes(x)):
            if key not in number:
                number[key] = len(number)
                new.append(row)
        parts.append(matrix.take(np.array(new, dtype=np.int64)))
    whole = parts[0]
    for part in parts[1:]:
        whole = whole + part
    return whole, number
