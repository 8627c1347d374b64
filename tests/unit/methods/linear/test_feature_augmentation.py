"""Feature augmentation and RMTL against a general optimiser of their objectives in (w_0, v_d, b)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from multidomain.methods.base import FitContext
from multidomain.methods.data import Examples, TrainingData
from multidomain.methods.linear.base import LinearMethod, solve_one
from multidomain.methods.linear.feature_augmentation import FeatureAugmentation
from multidomain.methods.linear.rmtl import RMTL, RMTLSettings
from multidomain.methods.task import Task

COLUMNS, C = 3, 0.8
LABELLED = (0, 2)  # domain 1 has none


def rows(n_classes: int = 2, mirrored: bool = False, weighted: bool = False) -> Examples:
    """Rows of domains 0 and 2, in turn, whose weights differ; some rows are on the wrong side."""
    random = np.random.default_rng(3)
    n = 24
    d = np.tile(LABELLED, n // 2)
    x = random.normal(size=(n, COLUMNS))
    common, own = random.normal(size=(COLUMNS, n_classes)), random.normal(size=(3, COLUMNS, n_classes))
    y = np.array([(x[i] @ (common + own[d[i]]) + random.normal(size=n_classes)).argmax() for i in range(n)])
    assert len(set(y)) == n_classes
    if mirrored:  # then the best bias is 0, whether it is penalised or not
        x, d, y = np.vstack([x, -x]), np.r_[d, d], np.r_[y, 1 - y]
    weight = random.uniform(0.2, 3, size=len(x)) if weighted else None
    return Examples(csr_matrix(x), d, y, weight)


def fitted(method: type[LinearMethod], labelled: Examples, n_classes: int = 2, **settings: Any) -> LinearMethod:
    task = Task(COLUMNS, n_classes, ("a", "b", "c"), LABELLED)
    model = method(task, method.settings_type(**settings))
    none = labelled.select(np.zeros(len(labelled), bool))
    data = TrainingData(task, tuple("xyz"[:n_classes]), labelled, labelled, none, np.ones(len(labelled), bool))
    model.fit(data, FitContext())
    return model


def scores(model: LinearMethod, n_classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Weights (unknown, a, b, c) and biases; of two classes those of the second less those of the first."""
    weight, bias = model.weight, model.bias
    if n_classes > 2:
        return weight, bias
    return weight[..., 1] - weight[..., 0], bias[:, 1] - bias[:, 0]


def smooth_minimum(loss: str, labelled: Examples, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (w_0, v_0, v_2) and b that minimise the objective of feature augmentation."""
    x, y, d = labelled.x.toarray(), labelled.y, labelled.d
    omega = np.ones(len(x)) if labelled.weight is None else labelled.weight
    k = 1 if n_classes == 2 else n_classes

    def loss_of(s: np.ndarray, y_i: int) -> float:
        if k > 1:
            return math.log(sum(math.exp(v) for v in s)) - s[y_i]
        m = s[0] if y_i == 1 else -s[0]
        return math.log(1 + math.exp(-m)) if loss == "lr" else max(0.0, 1 - m) ** 2

    def J(flat: np.ndarray) -> float:
        w_0, v_0, v_2 = flat[:-k].reshape(3, COLUMNS, k)
        total = 0.5 * (w_0**2).sum() + 0.5 * (v_0**2).sum() + 0.5 * (v_2**2).sum()
        for i in range(len(x)):
            v = v_0 if d[i] == 0 else v_2
            total += C * omega[i] * loss_of(x[i] @ (w_0 + v) + flat[-k:], y[i])
        return total

    best = minimize(J, np.zeros((3 * COLUMNS + 1) * k), method="BFGS", options={"gtol": 1e-5}).x
    return best[:-k].reshape(3, COLUMNS, k), best[-k:] - best[-k:].mean() * (k > 1)  # a constant changes no softmax


def hinge_minimum(labelled: Examples, cost: float, mu: float) -> tuple[np.ndarray, float]:
    """Return (w_0, v_0, v_2) and J at the minimum of RMTL's objective, as a quadratic programme with slacks."""
    x, y, d = labelled.x.toarray(), 2 * labelled.y - 1, labelled.d
    n = len(x)

    def J(z: np.ndarray) -> float:
        w_0, v_0, v_2 = z[: 3 * COLUMNS].reshape(3, COLUMNS)
        return mu / 2 * w_0 @ w_0 + (v_0 @ v_0 + v_2 @ v_2) / 2 + cost * z[-n:].sum()

    def beyond(z: np.ndarray) -> np.ndarray:
        """Slack less what the hinge needs, and slack: neither is to be negative."""
        w_0, v_0, v_2 = z[: 3 * COLUMNS].reshape(3, COLUMNS)
        margins = [y[i] * (x[i] @ (w_0 + (v_0 if d[i] == 0 else v_2)) + z[3 * COLUMNS]) for i in range(n)]
        return np.r_[z[-n:] - 1 + margins, z[-n:]]

    start = np.r_[np.zeros(3 * COLUMNS + 1), np.ones(n)]
    found = minimize(J, start, method="SLSQP", constraints={"type": "ineq", "fun": beyond}, options={"ftol": 1e-10})
    assert found.success
    return found.x[: 3 * COLUMNS].reshape(3, COLUMNS), found.fun


@pytest.mark.parametrize(
    ("loss", "n_classes", "mirrored", "weighted"),
    [("lr", 2, False, False), ("lr", 2, False, True), ("lr", 3, False, False), ("svm", 2, True, False)],
)
def test_augmented_weights_are_the_minimum(loss: str, n_classes: int, mirrored: bool, weighted: bool):
    labelled = rows(n_classes, mirrored, weighted)
    model = fitted(FeatureAugmentation, labelled, n_classes, loss=loss, C=C)
    weight, bias = scores(model, n_classes)
    (w_0, v_0, v_2), b = smooth_minimum(loss, labelled, n_classes)
    assert min(np.abs(w_0).max(), np.abs(v_0).max(), np.abs(v_2).max()) > 0.1
    expected = np.stack([w_0, w_0 + v_0, w_0, w_0 + v_2])  # unknown, a, b (no labels, so v_b = 0), c
    np.testing.assert_allclose(weight, expected if n_classes > 2 else expected[..., 0], atol=2e-4)
    bias = bias - bias.mean(axis=-1, keepdims=True) if n_classes > 2 else bias[:, None]
    np.testing.assert_allclose(bias, np.tile(b, (4, 1)), atol=2e-4)


@pytest.mark.parametrize("mu", [0.3, 1.0, 4.0])
def test_rmtl_is_the_minimum(mu: float):
    labelled = rows(mirrored=True)
    weight, bias = scores(fitted(RMTL, labelled, C=C, mu=mu))
    (w_0, v_0, v_2), least = hinge_minimum(labelled, C, mu)
    np.testing.assert_allclose(weight, [w_0, w_0 + v_0, w_0, w_0 + v_2], atol=5e-3)
    np.testing.assert_allclose(bias, 0, atol=5e-3)
    # w_0 and v_d are read off the model's weights, and the objective is written out.
    x, y, d = labelled.x.toarray(), 2 * labelled.y - 1, labelled.d
    found = mu / 2 * weight[0] @ weight[0] + sum(0.5 * np.square(weight[1 + e] - weight[0]).sum() for e in range(3))
    for i in range(len(x)):
        found += C * max(0.0, 1 - y[i] * (x[i] @ weight[1 + d[i]] + bias[0]))
    assert found == pytest.approx(least, rel=1e-3)


def test_rmtl_with_three_classes_is_one_against_the_rest():
    labelled = rows(3)
    model = fitted(RMTL, labelled, 3, C=C, mu=0.5)
    for y in range(3):
        binary = Examples(labelled.x, labelled.d, (labelled.y == y).astype(int))
        weight, bias = scores(fitted(RMTL, binary, C=C, mu=0.5))
        np.testing.assert_allclose(model.weight[..., y], weight, atol=5e-3)
        np.testing.assert_allclose(model.bias[..., y], bias, atol=5e-3)


def svm(labelled: Examples, cost: float) -> np.ndarray:
    weight, _ = solve_one("hinge", labelled.x, labelled.y, None, 2, cost)
    return weight[:, 1] - weight[:, 0]


def test_large_mu_leaves_every_domain_to_itself():
    labelled = rows(mirrored=True)
    weight, _ = scores(fitted(RMTL, labelled, C=C, mu=1e6))
    np.testing.assert_allclose(weight[0], 0, atol=1e-3)
    alone = {d: svm(labelled.select(labelled.d == d), C) for d in LABELLED}
    assert np.abs(alone[0] - alone[2]).max() > 0.3
    for d in LABELLED:
        np.testing.assert_allclose(weight[1 + d], alone[d], atol=5e-3)


def test_small_mu_is_one_model_for_all():
    """With C = mu * c and mu towards 0, J / mu is the support vector machine of cost c, and v_d is too dear."""
    labelled, mu = rows(mirrored=True), 1e-4
    weight, _ = scores(fitted(RMTL, labelled, C=C * mu, mu=mu))
    together = svm(labelled, C)
    assert np.abs(together).max() > 0.3
    np.testing.assert_allclose(weight, np.tile(together, (4, 1)), atol=5e-3)


@pytest.mark.parametrize(("method", "settings"), [(FeatureAugmentation, {"C": C}), (RMTL, {"C": C, "mu": 0.5})])
def test_domains_without_labels_and_unseen_ones_are_answered_by_w_0(method: type[LinearMethod], settings: Any):
    labelled = rows()
    model = fitted(method, labelled, **settings)
    x = labelled.x[:8]
    expected = x @ model.weight[0] + model.bias[0]
    np.testing.assert_allclose(model.logits(x, None), expected, rtol=1e-12)
    np.testing.assert_array_equal(model.logits(x, 1), model.logits(x, None))
    for d in LABELLED:
        assert np.abs(model.logits(x, d) - expected).max() > 0.05


def test_what_rmtl_tries():
    model = RMTL(Task(COLUMNS, 2, ("a",), (0,)), RMTLSettings())
    tried = [(v["C"], v["mu"]) for v in model.candidates()]
    assert len(set(tried)) == len(tried) == 7 * 4
    given = RMTL(Task(COLUMNS, 2, ("a",), (0,)), RMTLSettings(C=2.0))
    assert [(v["C"], v["mu"]) for v in given.candidates()] == [(2.0, 1.0), (2.0, 0.3), (2.0, 0.1), (2.0, 3.0)]
