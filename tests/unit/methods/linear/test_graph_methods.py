"""Weights tied by a graph: the solver, MTL-graph and CMSC against their objectives, written out by loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reports import Reports
from scipy.optimize import approx_fprime, minimize
from scipy.sparse import csr_matrix

from multidomain.errors import ConfigError, DataError, TrainingError
from multidomain.methods.base import FitContext
from multidomain.methods.data import Examples, TrainingData
from multidomain.methods.linear.cmsc import CMSC, CMSCSettings, domain_similarity
from multidomain.methods.linear.graph_solver import TiedWeights, laplacian
from multidomain.methods.linear.mtl_graph import MTLGraph
from multidomain.methods.task import Task

COLUMNS = 3
DOMAINS = ("a", "b", "c", "d")
LABELLED = (0, 1, 3)  # domain 2 has none
LOSSES = ("ls", "svm", "lr")


def make_data(n_classes: int = 2, weighted: bool = False, empty_columns: int = 0) -> TrainingData:
    """10 to 16 labelled rows of each labelled domain, whose words differ, and text of all."""
    random = np.random.default_rng(7)
    d = np.repeat(LABELLED, (10, 13, 16))
    x = random.random((39, COLUMNS)) * (1 + d[:, None] * [0.5, 0, 0.2])
    x = np.hstack([x, np.zeros((39, empty_columns))])
    y = np.arange(39) % n_classes
    x[:, 0] += 0.7 * y * (d != 3)  # domain 3 does not agree with the others
    weight = random.uniform(0.2, 3, size=39) if weighted else None
    text = np.vstack([x, random.random((8, COLUMNS + empty_columns))])
    classes = ("negative", "positive") if n_classes == 2 else ("negative", "neutral", "positive")
    task = Task(COLUMNS + empty_columns, n_classes, DOMAINS, LABELLED)
    words = ("fine", "dull", "table", "great", "awful", "chair")[: COLUMNS + empty_columns]
    rows, all_text = Examples(csr_matrix(x), d, y, weight), Examples(csr_matrix(text), np.r_[d, [2] * 8])
    return TrainingData(task, classes, rows, all_text, rows, np.arange(47) < 39, words)


def loss_of(loss: str, y: int, s: float) -> float:
    return {"ls": (y - s) ** 2, "svm": max(0.0, 1 - y * s) ** 2, "lr": math.log(1 + math.exp(-y * s))}[loss]


def mean_losses(loss: str, data: TrainingData, weights: np.ndarray, domains: tuple[int, ...] = LABELLED) -> float:
    """Weighted mean loss in each labelled domain, summed; `weights` (domains, columns + 1, targets)."""
    rows, targets = data.labelled, weights.shape[2]
    x = np.hstack([rows.x.toarray(), np.ones((len(rows), 1))])
    total = 0.0
    for d in domains:
        here = [i for i in range(len(rows)) if rows.d[i] == d]
        omega = {i: 1.0 if rows.weight is None else rows.weight[i] for i in here}
        for i in here:
            for c in range(targets):
                y = 1 if rows.y[i] == (1 if targets == 1 else c) else -1
                total += omega[i] / sum(omega.values()) * loss_of(loss, y, x[i] @ weights[d, :, c])
    return total


def slopes(J: Callable[[np.ndarray], float], at: np.ndarray) -> np.ndarray:
    return (approx_fprime(at, J, 1e-5) + approx_fprime(at, J, -1e-5)) / 2


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("loss", LOSSES)
def test_value_gradient_and_minimum(loss: str, n_classes: int, weighted: bool):
    data, random = make_data(n_classes, weighted), np.random.default_rng(1)
    targets = 1 if n_classes == 2 else 3
    root = random.normal(size=(4, 4))
    A, prior = 0.1 * root @ root.T + 0.1 * np.eye(4), random.normal(size=(COLUMNS, targets))
    problem = TiedWeights(data.task, data.labelled, loss, A, 0.3, prior)

    def J(flat: np.ndarray) -> float:
        theta = flat.reshape(5, COLUMNS + 1, targets)
        w, V = theta[0], theta[1:]
        total = mean_losses(loss, data, w + V) + 0.3 * (w**2).sum() - (prior * w[:-1]).sum()
        return total + sum(A[d, e] * (V[d] * V[e]).sum() for d in range(4) for e in range(4))

    at = random.normal(size=5 * (COLUMNS + 1) * targets)
    value, gradient = problem.value_and_gradient(at)
    assert value == pytest.approx(J(at), rel=1e-12)
    np.testing.assert_allclose(gradient, slopes(J, at), atol=1e-7)
    best = problem.minimum(FitContext())
    assert np.abs(problem.value_and_gradient(best.ravel())[1]).max() <= 1e-5
    np.testing.assert_allclose(problem.minimum(FitContext(), start=at), best, atol=1e-3)  # wherever it starts


def test_features_that_are_not_finite_are_refused():
    data = make_data()
    huge = replace(data.labelled, x=csr_matrix(np.full((39, COLUMNS), 1e200)))
    problem = TiedWeights(data.task, huge, "ls", np.eye(4), None, None)
    message = r"not finite\. Scale the features down, or use weighting='tfidf'\."
    with np.errstate(all="ignore"), pytest.raises(TrainingError, match=message):
        problem.minimum(FitContext(), start=np.ones((5, COLUMNS + 1, 1)))


def test_a_search_that_ends_early_is_noted(monkeypatch: pytest.MonkeyPatch):
    data, context = make_data(), Reports()
    problem = TiedWeights(data.task, data.labelled, "lr", 1e-3 * np.eye(4), 1e-3, None)
    problem.minimum(context)
    assert context.notes == []

    def after_one_step(*given: Any, options: dict[str, Any], **more: Any) -> Any:
        return minimize(*given, options={**options, "maxiter": 1}, **more)

    monkeypatch.setattr("multidomain.methods.linear.graph_solver.minimize", after_one_step)
    problem.minimum(context)
    (note,) = context.notes
    assert note.kind == "not-converged"
    assert note.message.startswith("The solver stopped before the minimum (largest partial derivative ")


def test_laplacian():
    random = np.random.default_rng(0)
    S, V = random.random((4, 4)), random.normal(size=(4, 6))
    S = S + S.T  # with a diagonal, which is to have no effect
    expected = sum(S[d, e] * np.square(V[d] - V[e]).sum() for d in range(4) for e in range(d + 1, 4))
    assert np.trace(V.T @ laplacian(S) @ V) == pytest.approx(expected, rel=1e-12)


def solved(method: Any, data: TrainingData, loss: str, **values: float) -> np.ndarray:
    """Weights with the bias below, of unknown domains and of each, shape (1 + domains, columns + 1, targets)."""
    model = method(data.task, method.settings_type(loss=loss, **values))
    found = model.solve(data, {"alpha": 0.0, **values}, FitContext())
    joined = np.concatenate([found.weight, found.bias[:, None]], axis=1)
    return joined if joined.shape[2] > 2 else joined[..., 1:] - joined[..., :1]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("loss", LOSSES)
def test_mtl_graph_is_the_minimum_of_its_objective(loss: str, n_classes: int):
    data = make_data(n_classes)
    found = solved(MTLGraph, data, loss, rho=0.05, ridge=0.02)

    def J(flat: np.ndarray) -> float:
        W = flat.reshape(found[1:].shape)
        apart = sum(np.square(W[d] - W[e]).sum() for d in range(4) for e in range(d + 1, 4))
        return mean_losses(loss, data, W) + 0.05 * apart + 0.02 * np.square(W).sum()

    assert np.abs(slopes(J, found[1:].ravel())).max() < 2e-5
    np.testing.assert_allclose(found[0], found[1:].mean(axis=0), rtol=1e-12)  # of a domain not in training
    others = found[[1, 2, 4]].sum(axis=0)
    np.testing.assert_allclose(found[3], 0.05 * others / (3 * 0.05 + 0.02), atol=1e-3)  # of the one without labels


@pytest.mark.parametrize("loss", LOSSES)
def test_mtl_graph_without_edges_is_one_model_for_each_domain(loss: str):
    data = make_data()
    found = solved(MTLGraph, data, loss, rho=1e-9, ridge=0.1)
    for d in LABELLED:

        def J(w: np.ndarray, d: int = d) -> float:
            return mean_losses(loss, data, np.tile(w.reshape(1, -1, 1), (4, 1, 1)), (d,)) + 0.1 * np.square(w).sum()

        np.testing.assert_allclose(found[1 + d, :, 0], minimize(J, np.zeros(COLUMNS + 1)).x, atol=1e-3)
    np.testing.assert_allclose(found[3], 0, atol=1e-4)


@pytest.mark.parametrize("loss", LOSSES)
def test_mtl_graph_with_strong_edges_is_one_model(loss: str):
    data = make_data()
    found = solved(MTLGraph, data, loss, rho=1e4, ridge=0.1)
    np.testing.assert_allclose(found[1:], np.tile(found[:1], (4, 1, 1)), atol=1e-3)

    def J(w: np.ndarray) -> float:
        return mean_losses(loss, data, np.tile(w.reshape(1, -1, 1), (4, 1, 1))) + 4 * 0.1 * np.square(w).sum()

    np.testing.assert_allclose(found[0, :, 0], minimize(J, np.zeros(COLUMNS + 1)).x, atol=1e-3)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("loss", LOSSES)
def test_cmsc_is_the_minimum_of_its_objective(loss: str, n_classes: int):
    data = make_data(n_classes)
    found = solved(CMSC, data, loss, beta=0.3, ridge=0.02)
    w, V = found[0], found[1:] - found[0]
    S = domain_similarity(data.text, 4)

    def J(flat: np.ndarray) -> float:
        theta = flat.reshape(found.shape)
        w, V = theta[0], theta[1:]
        apart = sum(S[d, e] * np.square(V[d] - V[e]).sum() for d in range(4) for e in range(d + 1, 4))
        return mean_losses(loss, data, w + V) + 0.3 * apart + 0.02 * (np.square(w).sum() + np.square(V).sum())

    assert np.abs(slopes(J, np.concatenate([w[None], V]).ravel())).max() < 2e-5
    # Stationarity in the domain without labels: its difference is a mean of the others', shrunk by the penalty.
    weighted = sum(S[2, e] * V[e] for e in LABELLED)
    expected = 0.3 * weighted / (0.3 * sum(S[2, e] for e in LABELLED) + 0.02)
    assert np.abs(expected).max() > 0.02
    np.testing.assert_allclose(V[2], expected, atol=1e-3 * np.abs(expected).max() + 2e-5)


def similarity_of(*words: list[float]) -> np.ndarray:
    return domain_similarity(Examples(csr_matrix(np.array(words)), np.arange(len(words))), len(words))


def test_similarity_is_one_minus_the_divergence_in_bits():
    words = [[3.0, 1, 0, 4], [1.0, 1, 2, 0], [-2.0, 0, 5, 1]]
    S = similarity_of(*words)
    np.testing.assert_allclose(S, S.T, atol=1e-15)
    for d, e in [(0, 1), (0, 2), (1, 2)]:
        p, q = (np.abs(words[k]) / np.abs(words[k]).sum() for k in (d, e))
        divergence = 0.0
        for p_j, q_j in zip(p, q, strict=True):
            for mass in (p_j, q_j):
                divergence += 0.5 * mass * math.log2(mass / ((p_j + q_j) / 2)) if mass else 0.0
        assert S[d, e] == pytest.approx(1 - divergence, abs=1e-9)


def test_similarity_of_equal_and_of_disjoint_words():
    S = similarity_of([1.0, 2, 0, 0], [2.0, 4, 0, 0], [0.0, 0, 3, 1], [0.0, 0, 0, 0])
    np.testing.assert_allclose([S[0, 1], S[0, 2], S[1, 2]], [1, 0, 0], atol=1e-9)
    np.testing.assert_allclose(np.diag(S), 1)
    assert np.isfinite(S).all()  # a domain of empty texts too


def test_similarity_of_equal_words_survives_rounding():
    row = [0.6369616873, 0.2697867138, 0.0409735239]
    x = csr_matrix(np.array([row] * 4, dtype=np.float32))
    S = domain_similarity(Examples(x, np.array([0, 1, 1, 1])), 2)
    np.testing.assert_allclose(S, np.ones((2, 2)), atol=1e-7)


def lexicon(folder: Path, text: str = "fine\t2\ngreat\t4\nawful\t-3\n") -> str:
    (folder / "words.tsv").write_text(text)
    return str(folder / "words.tsv")


def with_lexicon(data: TrainingData, alpha: float, **settings: Any) -> np.ndarray:
    model = CMSC(data.task, CMSCSettings(**settings))
    return model.solve(data, {"ridge": 0.1, "beta": 0.1, "alpha": alpha}, FitContext()).weight


def test_the_lexicon_draws_the_weights_of_its_words(tmp_path: Path):
    """Where a word is in no labelled text J is the prior and the penalty: w_j = alpha p_j / (2 eta)."""
    data = make_data(empty_columns=3)  # 'great', 'awful' and 'chair' are in none
    with_, without = (with_lexicon(data, alpha, lexicon=lexicon(tmp_path)) for alpha in (0.04, 0.0))
    for j, p in ((3, 1.0), (4, -0.75), (5, 0.0)):
        np.testing.assert_allclose(with_[:, j, 1] - with_[:, j, 0], 0.04 * p / 0.2, atol=1e-4)
    assert (with_[:, 0, 1] > without[:, 0, 1] + 1e-3).all()  # 'fine', which is in the texts
    np.testing.assert_allclose(without[:, 3:], 0, atol=1e-4)
    swapped = replace(data, classes=("great thing", "poor thing"))
    other = with_lexicon(swapped, 0.04, lexicon=lexicon(tmp_path), positive="great thing", negative="poor thing")
    np.testing.assert_allclose(other[:, 3:5, 0] - other[:, 3:5, 1], [[0.2, -0.15]] * 5, atol=1e-4)


def test_the_lexicon_says_nothing_about_further_classes(tmp_path: Path):
    weight = with_lexicon(make_data(3, empty_columns=3), 0.04, lexicon=lexicon(tmp_path))
    np.testing.assert_allclose(weight[:, 3], [[-0.2, 0, 0.2]] * 5, atol=1e-4)
    np.testing.assert_allclose(weight[:, 4], [[0.15, 0, -0.15]] * 5, atol=1e-4)


def test_what_a_lexicon_cannot_do_without(tmp_path: Path):
    data = make_data()
    with pytest.raises(
        ConfigError, match=r"needs the words behind the features, and these are vectors .* Drop the setting 'lex"
    ):
        with_lexicon(replace(data, words=None), 0.1, lexicon=lexicon(tmp_path))
    expected = r"the classes 'good' and 'negative', and 'good' is not among 'negative', 'positive'\. Name them with"
    with pytest.raises(ConfigError, match=expected):
        with_lexicon(data, 0.1, lexicon=lexicon(tmp_path), positive="good")
    with pytest.raises(DataError, match=r"The lexicon .*missing\.tsv cannot be read: "):
        with_lexicon(data, 0.1, lexicon=str(tmp_path / "missing.tsv"))
