"""The fast convolution and maximum against `torch.nn.Conv1d` and `max`, document by document."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from multidomain.nn.extractors.cnn import CNNExtractor
from multidomain.nn.kernels.conv_pool import _DOCUMENTS_AT_A_TIME, conv_pool
from multidomain.nn.kernels.row_adam import RowAdam
from multidomain.nn.sparse import SparseBatch

SIZES, FILTERS, DIMENSION, WORDS = (3, 4, 5), 7, 6, 23


def documents(lengths: list[int], words: int = WORDS, seed: int = 0) -> SparseBatch:
    generator = torch.Generator().manual_seed(seed)
    index = torch.randint(words, (sum(lengths),), generator=generator)
    offset = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()])
    return SparseBatch(index, torch.ones(len(index), dtype=torch.float64), offset)


def parameters(copies: int, seed: int = 0) -> tuple[nn.Parameter, nn.Parameter]:
    torch.manual_seed(seed)
    table = nn.Parameter(torch.randn(copies * WORDS, DIMENSION, dtype=torch.float64))
    table.row_gradient = None
    return table, nn.Parameter(torch.randn(copies, sum(SIZES), FILTERS, DIMENSION, dtype=torch.float64))


def textbook(x: SparseBatch, table: Tensor, filters: Tensor) -> Tensor:
    """One document at a time, through a dense convolution; short documents go on with zeros."""
    each = len(x) // len(filters)
    out = []
    for row in range(len(x)):
        vectors = table[x.index[x.offset[row] : x.offset[row + 1]]]
        responses, position = [], 0
        for size in SIZES:
            # As long as this kernel at least: a document that is long enough has no zeros after it.
            padded = torch.cat([vectors, vectors.new_zeros(max(0, size - len(vectors)), DIMENSION)])
            kernel = filters[row // each, position : position + size].permute(1, 2, 0)  # (filters, dimension, size)
            responses.append(nn.functional.conv1d(padded.T[None], kernel)[0].max(dim=1).values)
            position += size
        out.append(torch.cat(responses))
    return torch.stack(out)


@pytest.mark.parametrize("lengths", [[9, 5, 30, 12], [1, 2, 3, 4], [0, 1, 400, 3]], ids=["long", "short", "mixed"])
@pytest.mark.parametrize("copies", [1, 2])
def test_values_and_gradients(lengths: list[int], copies: int):
    x = documents(lengths)
    table, filters = parameters(copies)
    x = SparseBatch(x.index + WORDS * (x.row_of_value // (len(x) // copies)), x.value, x.offset)
    fast = conv_pool(x, table, filters, SIZES, learns_words=True)
    slow = textbook(x, table, filters)
    torch.testing.assert_close(fast, slow, rtol=1e-12, atol=1e-12)
    weights = torch.randn(slow.shape, dtype=torch.float64)
    (fast * weights).sum().backward()
    rows, gradient = table.row_gradient.rows, table.row_gradient.values
    by_filters = filters.grad.clone()
    filters.grad = None
    (slow * weights).sum().backward()
    torch.testing.assert_close(by_filters, filters.grad, rtol=1e-12, atol=1e-12)
    dense = torch.zeros_like(table)
    dense[rows] = gradient
    torch.testing.assert_close(dense, table.grad, rtol=1e-12, atol=1e-12)
    assert (rows.diff() > 0).all()


def test_more_documents_than_fit_at_a_time():
    x = documents([4] * (_DOCUMENTS_AT_A_TIME + 9))
    table, filters = parameters(1)
    fast, slow = conv_pool(x, table, filters, SIZES, learns_words=True), textbook(x, table, filters)
    torch.testing.assert_close(fast, slow, rtol=1e-12, atol=1e-12)
    (fast**2).sum().backward()
    rows, gradient = table.row_gradient.rows, table.row_gradient.values
    (slow**2).sum().backward()
    torch.testing.assert_close(gradient, table.grad[rows], rtol=1e-10, atol=1e-10)
    assert len(rows) == len(rows.unique())


def test_an_empty_document_has_the_responses_of_zeros():
    table, filters = parameters(1)
    out = conv_pool(documents([0, 0]), table, filters, SIZES, learns_words=True)
    assert torch.equal(out, torch.zeros_like(out))
    out.sum().backward()
    assert torch.equal(filters.grad, torch.zeros_like(filters))


def test_a_million_words():
    x = documents([1_000_000])
    table, filters = parameters(1)
    out = conv_pool(x, table, filters, SIZES, learns_words=False)
    assert out.shape == (1, len(SIZES) * FILTERS) and torch.isfinite(out).all()


def test_frozen_words_get_no_gradient():
    table, filters = parameters(1)
    table.requires_grad_(False)
    conv_pool(documents([8, 8]), table, filters, SIZES, learns_words=False).sum().backward()
    assert table.row_gradient is None and table.grad is None and filters.grad.abs().sum() > 0


def test_extractor_copies_are_independent():
    torch.manual_seed(0)
    extractor = CNNExtractor(3, WORDS, DIMENSION, SIZES, FILTERS, 4, dropout=0.3).double().eval()
    x = documents([5, 9, 2, 30, 7, 1])
    together = extractor(x)
    assert together.shape == (3, 2, 4)
    for copy in range(3):
        alone = extractor(x.blocks([copy], 2), copy=copy)
        torch.testing.assert_close(alone[0], together[copy], rtol=1e-12, atol=1e-12)


def test_row_adam_takes_the_gradient_of_the_words():
    torch.manual_seed(0)
    extractor = CNNExtractor(1, WORDS, DIMENSION, SIZES, FILTERS, 4, dropout=0.0).train()
    extractor.row_optimiser = RowAdam([extractor.table], lr=0.1)
    before = extractor.table.detach().clone()
    x = documents([6, 6])
    extractor(SparseBatch(x.index, x.value.float(), x.offset)).sum().backward()
    extractor.row_optimiser.step()
    moved = (extractor.table.detach() != before).any(dim=1).nonzero().squeeze(1)
    assert set(moved.tolist()) <= set(x.index.tolist()) and len(moved)


def test_without_an_optimiser_of_rows_the_gradient_is_dense():
    x = documents([9, 5, 30])
    table, filters = parameters(1)
    conv_pool(x, table, filters, SIZES, learns_words=False).square().sum().backward()
    dense = table.grad.clone()
    table.grad = None
    textbook(x, table, filters).square().sum().backward()
    torch.testing.assert_close(dense, table.grad, rtol=1e-10, atol=1e-12)
