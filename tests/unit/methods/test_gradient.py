"""A network behind the contract of a method: arrays in and out, whatever its device and its mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from multidomain.methods.adversarial.man import MAN, MANSettings
from multidomain.methods.task import Task
from multidomain.nn.sparse import SparseMatrix

TASK = Task(6, 2, ("a", "b", "c"), (0, 2))  # b has no labels
SIZES = {"hidden": (5,), "shared_size": 4, "private_size": 3, "dropout": 0.5}


def network(seed: int = 0) -> MAN:
    torch.manual_seed(seed)
    return MAN(TASK, MANSettings.parse(SIZES))


def rows(n: int, seed: int = 0) -> csr_matrix:
    random = np.random.default_rng(seed)
    return csr_matrix((random.random((n, 6)) * (random.random((n, 6)) < 0.6)).astype(np.float32))


X, OTHER = rows(7, seed=0), rows(7, seed=1)
BATCH, OTHER_BATCH = SparseMatrix(X).all(), SparseMatrix(OTHER).all()


@pytest.mark.parametrize(
    ("of_rows", "of_batch"),
    [
        (lambda m: m.logits(X, 2), lambda m: m.batch_logits(BATCH, 2)),
        (lambda m: m.logits(X, None), lambda m: m.batch_logits(BATCH, None)),
        (lambda m: m.logits_of_views(X, OTHER, 2), lambda m: m.batch_logits_of_views(BATCH, OTHER_BATCH, 2)),
        (lambda m: m.shared_features(X), lambda m: m.batch_shared_features(BATCH)),
        (lambda m: m.private_features(X, 2), lambda m: m.batch_private_features(BATCH, 2)),
    ],
    ids=["logits", "logits of an unknown domain", "logits of views", "shared features", "private features"],
)
def test_arrays_are_what_batches_give(of_rows: Callable[[MAN], Any], of_batch: Callable[[MAN], Any]):
    """Dropout is switched off, and no gradient is kept."""
    method = network().train()
    found = of_rows(method)
    assert isinstance(found, np.ndarray) and found.dtype == np.float32 and not method.training
    with torch.no_grad():
        np.testing.assert_allclose(found, of_batch(method), rtol=1e-6, atol=1e-7)


def test_no_rows():
    method = network()
    assert method.logits(X[:0], 0).shape == (0, 2)
    assert method.logits_of_views(X[:0], X[:0], 0).shape == (0, 2)
    assert method.shared_features(X[:0]).shape == (0, 4)
    assert method.private_features(X[:0], 0).shape == (0, 3)


def test_a_domain_without_private_features_has_none():
    assert network().private_features(X, 1) is None


def test_weights_are_those_of_the_module_and_the_calibration():
    method = network()
    weights = method.weights()
    assert weights.keys() == {*method.state_dict(), "inverse_temperature", "class_bias"}
    assert not {"inverse_temperature", "class_bias"} & method.state_dict().keys()
    assert all(isinstance(array, np.ndarray) for array in weights.values())
    assert method.n_weights == sum(parameter.numel() for parameter in method.parameters())


def test_weights_go_from_one_network_to_another_without_memory_of_its_own():
    method, other = network(), MAN.untrained(TASK, MANSettings.parse(SIZES))
    assert other.device.type == "meta"
    method.class_bias[1] = [3, -3]
    other.load_weights({name: array.copy() for name, array in method.weights().items()})
    assert other.device.type == "cpu"
    for d in (0, 1, None):
        np.testing.assert_array_equal(other.calibrated_logits(X, d), method.calibrated_logits(X, d))
    np.testing.assert_array_equal(other.class_bias[1], [3, -3])
    assert all(parameter.requires_grad for parameter in other.parameters())


def test_weights_of_before_there_was_calibration():
    method = network()
    weights = {name: value.numpy() for name, value in method.state_dict().items()}
    other = network(seed=1)
    other.load_weights(weights)
    np.testing.assert_array_equal(other.logits(X, 0), method.logits(X, 0))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"C.out.bias": None}, "'C.out.bias' is missing"),
        ({"C.more": np.zeros(1, dtype=np.float32)}, "'C.more' is unexpected"),
        (
            {"C.out.bias": np.zeros(3, dtype=np.float32)},
            "'C.out.bias' should be float32 of shape (2), and is float32 of shape (3)",
        ),
        ({"C.out.bias": np.zeros(2)}, "'C.out.bias' should be float32 of shape (2), and is float64 of shape (2)"),
        (
            {"class_bias": np.zeros((4, 3), dtype=np.float32)},
            "'class_bias' should be float32 of shape (4, 2), and is float32 of shape (4, 3)",
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize("untrained", [False, True])
def test_weights_that_do_not_fit(change: dict[str, np.ndarray | None], said: str, untrained: bool):
    weights = {name: w for name, w in {**network().weights(), **change}.items() if w is not None}
    method = MAN.untrained(TASK, MANSettings.parse(SIZES)) if untrained else network(seed=1)
    with pytest.raises(ValueError) as caught:
        method.load_weights(weights)
    assert str(caught.value) == said


def test_a_state_of_earlier_versions_holds_the_calibration_which_is_left_out():
    """Checkpoints do: the calibration was part of the state."""
    method, other = network(), network(seed=1)
    state = {**method.state_dict(), "inverse_temperature": torch.full((4,), 5.0), "class_bias": torch.ones(4, 2)}
    other.load_state_dict(state)
    np.testing.assert_array_equal(other.logits(X, 0), method.logits(X, 0))
    np.testing.assert_array_equal(other.inverse_temperature, 1)
