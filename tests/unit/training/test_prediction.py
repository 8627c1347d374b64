"""Predictions row by row, whatever the order and the number of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from multidomain.methods.data import TrainingData
from multidomain.model.prediction import predicted_probabilities
from multidomain.nn.sparse import SparseMatrix

Make = Callable[..., Any]


@pytest.fixture
def data(training_data_of: Make) -> TrainingData:
    return training_data_of(labelled=(9, 0, 12), text=(9, 6, 12), n_classes=3)


def test_rows_keep_their_order_and_their_domain(small_method: Make, data: TrainingData):
    """Against one row at a time; domains are mixed, some are unknown."""
    method = small_method(data.task)
    codes = np.ma.masked_array(np.arange(27) % 3, mask=np.arange(27) % 5 == 0)
    p = predicted_probabilities(method, data.text.x, codes)
    assert p.shape == (27, 3)
    method.eval()
    rows = SparseMatrix(data.text.x)
    for row in range(27):
        d = None if row % 5 == 0 else row % 3
        expected = method.batch_logits(rows.take(np.array([row])), d)[0].softmax(-1)
        np.testing.assert_allclose(p[row], expected.detach(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)


def test_chunks_make_no_difference(small_method: Make, data: TrainingData, monkeypatch: pytest.MonkeyPatch):
    method = small_method(data.task)
    whole = (
        predicted_probabilities(method, data.text.x, data.text.d),
        method.shared_features(data.text.x),
    )
    monkeypatch.setattr(type(method), "rows_at_a_time", 4)
    pieces = (
        predicted_probabilities(method, data.text.x, data.text.d),
        method.shared_features(data.text.x),
    )
    for a, b in zip(whole, pieces, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_dropout_is_off_and_nothing_is_changed(small_method: Make, data: TrainingData):
    method = small_method(data.task, dropout=0.5)
    before = {name: value.clone() for name, value in method.state_dict().items()}
    method.train()
    a = predicted_probabilities(method, data.text.x, data.text.d)
    method.train()
    np.testing.assert_array_equal(a, predicted_probabilities(method, data.text.x, data.text.d))
    assert all(torch.equal(before[name], value) for name, value in method.state_dict().items())


def test_shared_features(small_method: Make, data: TrainingData):
    method = small_method(data.task)
    features = method.shared_features(data.text.x)
    method.eval()
    expected = method.F_s(SparseMatrix(data.text.x).all())[0].detach()
    np.testing.assert_allclose(features, expected, rtol=1e-5, atol=1e-6)


def test_a_domain_without_private_features(small_method: Make, data: TrainingData):
    """'b' has no labels, so that no private extractor has learnt it."""
    method = small_method(data.task)
    assert method.private_features(data.text.x, 1) is None
    private = method.private_features(data.text.x, 2)
    assert private is not None and private.shape == (27, 4)
