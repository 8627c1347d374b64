"""Recurrent networks over batches, against `torch.nn.LSTM` on one document at a time: values and gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from multidomain.nn.extractors.lstm import LSTMExtractor
from multidomain.nn.kernels.recurrence import lstm_states
from multidomain.nn.kernels.row_adam import RowAdam
from multidomain.nn.sparse import SparseBatch

WORDS, DIMENSION, HIDDEN = 19, 5, 6
KINDS = {
    "lstm": {},
    "bilstm": {"both_directions": True},
    "bilstm-attention": {"both_directions": True, "attention": True},
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def documents(lengths: list[int], dtype: torch.dtype = torch.float64) -> SparseBatch:
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(1, WORDS, (sum(lengths),), generator=generator)
    return SparseBatch(
        index, torch.ones(len(index), dtype=dtype), torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()])
    )


def extractor(kind: str, copies: int = 2) -> LSTMExtractor:
    torch.manual_seed(1)
    return LSTMExtractor(copies, WORDS, DIMENSION, HIDDEN, 4, 0.2, **KINDS[kind]).double().eval()


def reference(F: LSTMExtractor, copy: int) -> nn.LSTM:
    """The recurrent part of one copy."""
    lstm = nn.LSTM(DIMENSION, HIDDEN, bidirectional=F.input_weight.shape[1] == 2).double()
    with torch.no_grad():
        for direction in range(F.input_weight.shape[1]):
            ending = "_reverse" if direction else ""
            getattr(lstm, f"weight_ih_l0{ending}").copy_(F.input_weight[copy, direction].T)
            getattr(lstm, f"weight_hh_l0{ending}").copy_(F.state_weight[copy, direction].T)
            getattr(lstm, f"bias_ih_l0{ending}").copy_(F.gate_bias[copy, direction, 0])
            getattr(lstm, f"bias_hh_l0{ending}").zero_()
    return lstm


def alone(F: LSTMExtractor, words: Tensor, copy: int) -> Tensor:
    """Features of one document, written out."""
    table = F.vectors[copy * WORDS : (copy + 1) * WORDS]
    states = reference(F, copy)(table[words])[0]
    if F.attention is not None:
        scores = torch.stack([F.attention[copy] @ h for h in states])
        summary = sum(a * h for a, h in zip(scores.softmax(0), states, strict=True))
    elif F.input_weight.shape[1] == 2:
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
    rows, gradient = F.vectors.row_gradient.rows, F.vectors.row_gradient.values
    assert F.vectors.grad is None or not F.vectors.grad.any()
    scattered = torch.zeros_like(dense)
    scattered[rows] = gradient
    torch.testing.assert_close(scattered, dense, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("lengths", [[4, 9, 1, 6], [3, 3, 3], [1]])
@pytest.mark.parametrize("of_states", ["last", "all"])
def test_gradients_of_the_recurrence_are_those_of_torch(lengths: list[int], of_states: str):
    torch.manual_seed(2)
    lstm = nn.LSTM(DIMENSION, HIDDEN).double()
    documents = [torch.randn(length, DIMENSION, dtype=torch.float64, requires_grad=True) for length in lengths]
    expected = 0
    for number, document in enumerate(documents, start=1):
        states = lstm(document)[0]
        expected = expected + number * (states if of_states == "all" else states[-1]).square().sum()
    expected.backward()

    longest_first = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    order = [(i, t) for t in range(max(lengths)) for i in longest_first if t < lengths[i]]
    x = torch.stack([documents[i][t].detach() for i, t in order])[None].requires_grad_()
    parameters = [lstm.weight_ih_l0.T[None], lstm.weight_hh_l0.T[None], lstm.bias_ih_l0 + lstm.bias_hh_l0]
    W, U, b = (p.detach().clone().requires_grad_() for p in parameters)
    widths = [sum(length > t for length in lengths) for t in range(max(lengths))]
    states = lstm_states(x, widths, W, U, b.view(1, 1, -1))[0]
    with torch.no_grad():
        torch.testing.assert_close(lstm_states(x, widths, W, U, b.view(1, 1, -1))[0], states, rtol=1e-10, atol=1e-12)
    weight = torch.tensor([i + 1.0 if of_states == "all" or t == lengths[i] - 1 else 0.0 for i, t in order]).double()
    found = (weight @ states.square()).sum()
    found.backward()

    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    for gradient, theirs in (
        (x.grad[0], torch.stack([documents[i].grad[t] for i, t in order])),
        (W.grad[0], lstm.weight_ih_l0.grad.T),
        (U.grad[0], lstm.weight_hh_l0.grad.T),
        (b.grad, lstm.bias_ih_l0.grad),
    ):
        torch.testing.assert_close(gradient, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("longest", [11, 80], ids=["together", "copy by copy"])
@every_kind
def test_gradients_of_several_copies_are_those_of_each_alone(kind: str, longest: int, monkeypatch: pytest.MonkeyPatch):
    networks = []

    def counted(x: Tensor, *others: object) -> Tensor:
        networks.append(len(x))
        return lstm_states(x, *others)

    monkeypatch.setattr("multidomain.nn.extractors.lstm.lstm_states", counted)
    F, x = extractor(kind, copies=6), documents([3, longest, 1, 1, 4, 2])
    weight = torch.randn(6, 1, 4, generator=torch.Generator().manual_seed(3)).double()
    (F(x) * weight).sum().backward()
    directions = 1 if kind == "lstm" else 2
    assert networks == ([6 * directions] if longest == 11 else [directions] * 6)
    together = {name: p.grad.clone() for name, p in F.named_parameters()}
    F.zero_grad()
    for row in range(6):
        (F(x.blocks([row], 1), copy=row)[0, 0] * weight[row, 0]).sum().backward()
    for name, p in F.named_parameters():
        torch.testing.assert_close(together[name], p.grad, rtol=1e-9, atol=1e-12, msg=name)
