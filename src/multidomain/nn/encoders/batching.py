"""Texts of similar length in groups, so that little of what an encoder reads is padding."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from multidomain.nn.sparse import SparseBatch


@dataclass(frozen=True)
class Group:
    """Some rows of a batch that are read together.

    Attributes
    ----------
    rows
        Their places in the batch.
    is_text
        Which subwords are no padding, shape (rows, subwords).
    """

    rows: Tensor
    is_text: Tensor


def groups_of(lengths: Tensor, tokens_at_a_time: int) -> list[Group]:
    """Return groups of texts in the order of their lengths, longest first; each is padded to its longest.

    Parameters
    ----------
    lengths
        Subwords of each text.
    tokens_at_a_time
        The most subwords of a group, padding included, unless a single text has more.
    """
    sizes, order = lengths.sort(descending=True, stable=True)
    longest_first = sizes.tolist()
    groups, start = [], 0
    while start < len(longest_first):
        longest = max(longest_first[start], 1)
        end = min(start + max(tokens_at_a_time // longest, 1), len(longest_first))
        place = torch.arange(longest, device=lengths.device)
        groups.append(Group(order[start:end], place < sizes[start:end, None]))
        start = end
    return groups


def ids_of(x: SparseBatch, group: Group) -> Tensor:
    """Return the subwords of a group, shape (rows, subwords); 0 in the padding."""
    place = torch.arange(group.is_text.shape[1], device=x.index.device)
    at = (x.offset[group.rows][:, None] + place).clamp(max=max(len(x.index) - 1, 0))
    return x.index[at].masked_fill(~group.is_text, 0)


def rows_as_bytes(x: SparseBatch) -> list[bytes]:
    """Return the subwords of each text as bytes, to compare texts by."""
    ids, ends = x.index.cpu().int().numpy(), x.offset.tolist()
    return [ids[start:end].tobytes() for start, end in pairwise(ends)]
