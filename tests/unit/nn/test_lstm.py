"""Packed recurrent networks against one document at a time."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from multidomain.nn.lstm import LSTMExtractor
from multidomain.nn.row_adam import RowAdam
from multidomain.nn.rows import Rows

WORDS, DIMENSION, HIDDEN = 19, 5, 6
KINDS = {
    "lstm": {},
    "bilstm": {"both_directions": True},
    "bilstm-attention": {"both_directions": True, "attention": True},
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def documents(lengths: list[int], dtype: torch.dtype = torch.float64) -> Rows:
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(1, WORDS, (sum(lengths),), generator=generator)
    return Rows(
        index, torch.ones(len(index), dtype=dtype), torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()])
    )


def extractor(kind: str, copies: int = 2) -> LSTMExtractor:
    torch.manual_seed(1)
    return LSTMExtractor(copies, WORDS, DIMENSION, HIDDEN, 4, 0.2, **KINDS[kind]).double().eval()


def alone(F: LSTMExtractor, words: Tensor, copy: int) -> Tensor:
    """Features of one document, written out."""
    table = F.vectors[copy * WORDS : (copy + 1) * WORDS]
    states, _ = F.recurrent[copy](table[words][None])
    states = states[0]
    if F.attention is not None:
        scores = torch.stack([F.attention[copy] @ h for h in states])
        summary = sum(a * h for a, h in zip(scores.softmax(0), states, strict=True))
    elif F.recurrent[copy].bidirectional:
        summary = torch.cat([states[-1, :HIDDEN], states[0, HIDDEN:]])
    else:
        summary = states[-1]
    return (summary @ F.weight[copy] + F.bias[copy, 0]).relu()


@every_kind
def test_every_document_as_if_it_were_alone(kind: str):
    F, x = extractor(kind), documents([3, 11, 1, 1, 7, 2])
    out = F(x)
    assert out.shape == (2, 3, 4)
    for row in range(6):
        words = x.index[x.offset[row] : x.offset[row + 1]]
        torch.testing.assert_close(out[row // 3, row % 3], alone(F, words, row // 3), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(F(x.blocks([1], 3), copy=1)[0], out[1], rtol=1e-10, atol=1e-12)


@every_kind
def test_an_empty_document_is_an_unknown_word(kind: str):
    F = extractor(kind)
    out = F(documents([2, 0, 3, 0]))
    torch.testing.assert_close(out[0, 1], alone(F, torch.tensor([0]), 0))
    torch.testing.assert_close(out[1, 1], alone(F, torch.tensor([0]), 1))


@every_kind
def test_gradients_of_words_come_by_rows(kind: str):
    F, x = extractor(kind), documents([3, 5, 2, 2])
    F(x).square().sum().backward()
    dense = F.vectors.grad.clone()
    F.zero_grad()
    F.dropout = 0.0
    F.train()
    F.row_optimiser = RowAdam([F.table], lr=0.1)
    F(x).square().sum().backward()
    rows, gradient = F.vectors.row_gradient
    assert F.vectors.grad is None or not F.vectors.grad.any()
    scattered = torch.zeros_like(dense)
    scattered[rows] = gradient
    torch.testing.assert_close(scattered, dense, rtol=1e-10, atol=1e-12)
