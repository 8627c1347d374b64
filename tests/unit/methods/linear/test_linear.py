"""Linear models against their objective, which is written out here by loops; choosing C; calibration."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from reports import Reports
from scipy.optimize import approx_fprime
from scipy.sparse import csr_matrix

from multidomain.errors import ConfigError, DataError
from multidomain.methods.base import FitContext
from multidomain.methods.calibration import NEVER, best_scale
from multidomain.methods.data import Examples, TrainingData
from multidomain.methods.history import History
from multidomain.methods.linear.base import C_GRID, solve_one
from multidomain.methods.linear.plain import Linear, LinearSettings
from multidomain.methods.task import Task

LOSSES = ("ls", "svm", "lr")


def examples(x: np.ndarray, d: Any, y: Any, weight: np.ndarray | None = None) -> Examples:
    return Examples(csr_matrix(x), np.broadcast_to(d, len(x)), np.asarray(y), weight)


def linear(labelled: Examples, dev: Examples, n_classes: int = 2, **settings: Any) -> tuple[Linear, TrainingData]:
    names = tuple("abc"[: labelled.d.max() + 1])
    task = Task(labelled.x.shape[1], n_classes, names, tuple(np.unique(labelled.d)))
    data = TrainingData(task, tuple("xyz"[:n_classes]), labelled, labelled, dev, np.ones(len(labelled), bool))
    return Linear(task, LinearSettings(**settings)), data


def random_rows(n: int, columns: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of which some are on the wrong side, so that no weights are right about all."""
    random = np.random.default_rng(0)
    x = random.normal(size=(n, columns)) * (random.random((n, columns)) < 0.7) + 0.4
    return x, (x @ random.normal(size=(columns, n_classes)) + 1.5 * random.normal(size=(n, n_classes))).argmax(axis=1)


def loss_of(loss: str, y: int, s: float) -> float:
    return {"ls": (y - s) ** 2, "svm": max(0.0, 1 - y * s) ** 2, "lr": math.log(1 + math.exp(-y * s))}[loss]


def objective(loss: str, scorer: np.ndarray, x: np.ndarray, y: np.ndarray, weight: np.ndarray, C: float) -> float:
    """J of weights with the bias in the last row, one column for each class or, of two, for the second."""
    total = 0.5 * float(np.square(scorer[:-1]).sum())
    for x_i, y_i, omega in zip(x, y, weight, strict=True):
        scores = [float(x_i @ column[:-1] + column[-1]) for column in scorer.T]
        if len(scores) == 1:
            total += C * omega * loss_of(loss, 2 * y_i - 1, scores[0])
        elif loss == "lr":
            total += C * omega * (math.log(sum(math.exp(s) for s in scores)) - scores[y_i])
        else:
            total += C * omega * sum(loss_of(loss, 1 if c == y_i else -1, s) for c, s in enumerate(scores))
    return total


def gradient(loss: str, scorer: np.ndarray, *of: Any) -> np.ndarray:
    """Partial derivatives by finite differences, as shares of the largest where all weights are zero."""

    def at(theta: np.ndarray) -> np.ndarray:
        J: Callable[[np.ndarray], float] = lambda flat: objective(loss, flat.reshape(scorer.shape), *of)  # noqa: E731
        forward, back = (approx_fprime(theta.ravel(), J, step) for step in (1e-5, -1e-5))
        return (forward + back).reshape(scorer.shape) / 2

    return at(scorer) / np.abs(at(np.zeros_like(scorer))).max()


def scorer_of(weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    joined = np.vstack([weight, bias])
    if joined.shape[1] != 2:
        return joined
    np.testing.assert_array_equal(joined[:, 0], -joined[:, 1])
    return 2 * joined[:, 1:]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "columns"), [(40, 4), (10, 14)])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("loss", LOSSES)
def test_no_derivative_is_left_at_the_solution(loss: str, n_classes: int, n: int, columns: int, weighted: bool):
    """J is convex, so this is its minimum. The bias of the support vector machine: see the mirrored rows."""
    x, y = random_rows(n, columns, n_classes)
    assert len(np.unique(y)) == n_classes
    weight = np.random.default_rng(1).uniform(0.2, 3, size=n) if weighted else None
    found = solve_one(loss, csr_matrix(x), y, weight, n_classes, C=0.7)
    left = gradient(loss, scorer_of(*found), x, y, np.ones(n) if weight is None else weight, 0.7)
    assert np.abs(left[:-1] if loss == "svm" else left).max() < 1e-4


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_and_their_mirror_images_need_no_bias(loss: str):
    x, y = random_rows(30, 4, 2)
    x, y = np.vstack([x, -x]), np.r_[y, 1 - y]
    scorer = scorer_of(*solve_one(loss, csr_matrix(x), y, None, 2, C=0.7))
    assert abs(scorer[-1]) < 1e-3
    assert np.abs(gradient(loss, scorer, x, y, np.ones(60), 0.7)).max() < 1e-4


@pytest.mark.parametrize("loss", LOSSES)
def test_a_domain_s_own_model_knows_its_rows_alone(loss: str):
    x, y = random_rows(60, 4, 3)
    y[30:] = (y[30:] + 1) % 3  # so that the domains disagree
    d = np.repeat([0, 1], 30)
    model, data = linear(examples(x, d, y), examples(x[:0], 0, y[:0]), 3, loss=loss, category="domain-specific", C=0.7)
    assert model.fit(data, FitContext()) == History(chosen={"C": {"a": 0.7, "b": 0.7}})
    for code in (0, 1):
        scorer = np.vstack([model.weight[1 + code], model.bias[1 + code]]).astype(np.float64)
        here = [x[d == code], y[d == code], np.ones(30), 0.7]
        left = gradient(loss, scorer, *here)
        assert np.abs(left[:-1] if loss == "svm" else left).max() < 1e-4
        expected = here[0] @ scorer[:-1] + scorer[-1]
        np.testing.assert_allclose(model.logits(data.labelled.x[d == code], code), expected)


def test_domain_specific_refuses_what_it_knows_nothing_about():
    x, y = random_rows(10, 3, 2)
    model, data = linear(examples(x, [0, 1] * 5, y), examples(x, 0, y), category="domain-specific", C=1.0)
    model.fit(data, FitContext())
    with pytest.raises(DataError, match=r"knows nothing about a domain .* only about 'a', 'b'\. Name one"):
        model.logits(data.dev.x, None)
    with pytest.raises(ConfigError, match=r"each domain from its own labels, and 'b' has none\. Drop the domain, or"):
        Linear(Task(3, 2, ("a", "b"), (0,)), model.settings)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("present", [(0, 2), (1, 2), (1,)])
def test_a_class_without_rows_is_never_the_answer(loss: str, present: tuple[int, ...]):
    x, y = random_rows(30, 4, len(present))
    y = np.array(present)[y]
    model, data = linear(examples(x, 0, y), examples(x, 0, y), 3, loss=loss)  # C chosen, scores calibrated
    model.fit(data, FitContext())
    anything = 20 * np.random.default_rng(2).normal(size=(200, 4))
    answers = model.logits(csr_matrix(anything), 0).argmax(axis=1)
    assert set(answers.tolist()) == set(present)


@pytest.mark.parametrize("loss", LOSSES)
def test_calibration_changes_no_answer_and_makes_the_development_labels_most_probable(loss: str):
    x, y = random_rows(100, 4, 3)
    model, data = linear(examples(x[:40], 0, y[:40]), examples(x[40:], 0, y[40:]), 3, loss=loss, C=1.0)
    raw = model.solve(data, {"C": 1.0}, FitContext()).scores(data.dev)
    model.fit(data, FitContext())
    kept = model.logits(data.dev.x, 0)
    scale = kept[0, 0] / raw[0, 0]
    np.testing.assert_allclose(kept, scale * raw, rtol=1e-5, atol=1e-6)  # weights are kept in single precision
    np.testing.assert_array_equal(kept.argmax(axis=1), raw.argmax(axis=1))

    def likelihood(factor: float) -> float:
        p = [[math.exp(factor * s) / sum(math.exp(factor * t) for t in row) for s in row] for row in raw]
        return sum(math.log(p[i][c]) for i, c in enumerate(y[40:]))

    if loss == "lr":  # its scores are log-odds as they are
        assert scale == pytest.approx(1)
    else:
        assert abs(math.log(scale)) > 0.05
        assert all(likelihood(scale) >= likelihood(factor) for factor in (1.0, *scale * np.geomspace(0.5, 2, 20)))
        assert scale == pytest.approx(best_scale(raw, data.dev))


def test_calibration_leaves_out_labels_that_are_never_the_answer():
    scores = np.array([[3.0, -3.0, NEVER], [-2.0, 2.0, NEVER], [2.5, -2.5, NEVER], [1.0, -1.0, NEVER]])
    y = np.array([0, 1, 0, 1])
    known = examples(np.zeros((4, 1)), [0] * 4, y)
    with_one_more = examples(np.zeros((5, 1)), [0] * 5, np.r_[y, 2])
    assert best_scale(np.vstack([scores, [1.0, -1.0, NEVER]]), with_one_more) == best_scale(scores, known)
    assert best_scale(scores[:1], examples(np.zeros((1, 1)), [0], np.array([2]))) == 1.0


def test_without_development_rows_scores_stay_as_they_are():
    x, y = random_rows(30, 4, 2)
    model, data = linear(examples(x, 0, y), examples(x[:0], 0, y[:0]), loss="svm")
    middle = {"C": C_GRID[len(C_GRID) // 2]}
    assert model.fit(data, FitContext()).chosen == middle
    as_solved = model.solve(data, middle, FitContext())
    np.testing.assert_array_equal(model.weight, as_solved.weight.astype(np.float32))
    np.testing.assert_array_equal(model.bias, as_solved.bias.astype(np.float32))


def weak_and_strong() -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Training rows whose small first feature is always right, the large second one in 8 of 10 cases.

    Only weights that are free to grow rely on the small one, so it takes a large C to be right about rows where the
    small feature is right and the large one wrong, and a small C where it is the other way round.
    """
    y = np.tile([0, 1], 20)
    sign = 2.0 * y - 1
    large = sign * np.where(np.arange(40) % 10 < 2, -1, 1)
    dev = {"large C": np.stack([0.1 * sign, -sign], axis=1), "small C": np.stack([-0.1 * sign, sign], axis=1)}
    return np.stack([0.1 * sign, large], axis=1), y, dev


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("best", ["large C", "small C"])
def test_C_is_chosen_on_development_rows(loss: str, best: str):
    x, y, dev = weak_and_strong()
    context = Reports()
    model, data = linear(examples(x, 0, y), examples(dev[best], 0, y), loss=loss)
    chosen = model.fit(data, context).chosen
    reached = {values["C"]: accuracy for values, accuracy in context.told}
    assert set(reached) <= set(C_GRID)
    assert set(reached.values()) == {0.0, 1.0}
    assert chosen["C"] == min(C for C, accuracy in reached.items() if accuracy == 1)
    assert (chosen["C"] == C_GRID[0]) == (best == "small C")
    kept = model.logits(data.dev.x, 0).argmax(axis=1)
    np.testing.assert_array_equal(kept, y)


def test_each_domain_chooses_its_own_C():
    x, y, dev = weak_and_strong()
    context = Reports()
    labelled = examples(np.vstack([x, x]), np.repeat([0, 1], 40), np.r_[y, y])
    held_out = examples(np.vstack([dev["large C"], dev["small C"]]), np.repeat([0, 1], 40), np.r_[y, y])
    model, data = linear(labelled, held_out, category="domain-specific")
    chosen = model.fit(data, context).chosen["C"]
    assert chosen["b"] == C_GRID[0] < chosen["a"]
    assert {values["domain"] for values in context.values} == {"a", "b"}
    for d in (0, 1):
        np.testing.assert_array_equal(model.logits(data.dev.x[held_out.d == d], d).argmax(axis=1), y)
