"""The support vector machine with shared and private weights, against liblinear on copies of the features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.svm import LinearSVC

from multidomain.methods.dual_solver import domain_columns, solve_two_views

N, N_DOMAINS, COLUMNS, SIZE = 60, 3, 7, 4
Solution = tuple[np.ndarray, np.ndarray, np.ndarray]


def make_rows(size: int = SIZE) -> dict[str, Any]:
    """Rows of domains 0 and 2, some on the wrong side, with very different costs; domain 1 has none."""
    random = np.random.default_rng(0)
    words = random.normal(size=(N, COLUMNS)) * (random.random((N, COLUMNS)) < 0.5)
    dense = random.normal(size=(N, size))
    d = random.choice([0, 2], size=N)
    slope = random.normal(size=COLUMNS) + (d == 2)[:, None] * random.normal(size=COLUMNS)
    y = np.where((words * slope).sum(axis=1) + dense.sum(axis=1) + random.normal(size=N) > 0.5, 1, -1)
    cost = 10 ** random.uniform(-2, 0.5, size=N)
    return {"sparse": csr_matrix(words), "dense": dense, "d": d, "y": y, "cost": cost}


def solve(rows: dict[str, Any], private: float, **options: Any) -> Solution:
    tight = {"tolerance": 1e-6, "max_passes": 5_000, **options}
    return with_defaults(rows, private, **tight)


def with_defaults(rows: dict[str, Any], private: float = 0.5, **options: Any) -> Solution:
    """Dense weights of the words, shape (1 + domains, columns), shared ones first; of the dense view; biases."""
    own = domain_columns(rows["sparse"], rows["d"], N_DOMAINS)
    found = solve_two_views(**rows, own=own, private=private, **options)
    of_words = np.zeros((1 + N_DOMAINS, COLUMNS))
    of_words[0] = found.shared
    for d in range(N_DOMAINS):
        places = slice(own.starts[d], own.starts[d + 1])
        of_words[1 + d, own.columns[places]] = found.private[places]
    return of_words, found.dense, found.bias


def both_views(rows: dict[str, Any]) -> np.ndarray:
    """Both views and the constant."""
    return np.hstack([rows["sparse"].toarray(), rows["dense"], np.ones((N, 1))])


def joined(solution: Solution) -> tuple[np.ndarray, np.ndarray]:
    """Shared weights, and private weights by domain, the bias last."""
    of_words, of_dense, bias = solution
    w, *v = np.hstack([of_words, of_dense, bias[:, None]])
    return w, np.array(v)


def liblinear(rows: dict[str, Any], private: float) -> tuple[np.ndarray, np.ndarray]:
    """Shared weights, private weights by domain: from one more copy of each row, in the place of its domain."""
    phi = both_views(rows)
    copies = [phi, *(np.sqrt(private) * phi * (rows["d"] == d)[:, None] for d in range(N_DOMAINS))]
    machine = LinearSVC(loss="squared_hinge", fit_intercept=False, C=1, dual=True, tol=1e-10, max_iter=1_000_000)
    machine.fit(np.hstack(copies), rows["y"], sample_weight=rows["cost"])
    w, *v = machine.coef_.reshape(1 + N_DOMAINS, -1)
    return w, np.sqrt(private) * np.array(v)


def objective(rows: dict[str, Any], private: float, w: np.ndarray, v: np.ndarray) -> float:
    total = 0.5 * w @ w + (sum(v_d @ v_d for v_d in v) / (2 * private) if private else 0)
    for phi, d, y, cost in zip(both_views(rows), rows["d"], rows["y"], rows["cost"], strict=True):
        total += cost * max(0.0, 1 - y * (phi @ (w + v[d]))) ** 2
    return float(total)


@pytest.mark.parametrize("size", [SIZE, 0])
@pytest.mark.parametrize("private", [0.0, 0.5, 1.0, 4.0])
def test_the_solution_is_liblinear_s_on_copies_of_the_features(private: float, size: int):
    rows = make_rows(size)
    solution = solve(rows, private)
    assert [part.shape[1:] for part in solution] == [(COLUMNS,), (size,), ()]
    w, v = joined(solution)
    expected = liblinear(rows, private)
    np.testing.assert_allclose(w, expected[0], atol=2e-4)
    np.testing.assert_allclose(v, expected[1], atol=2e-4)
    assert abs(w[-1]) > 0.05
    least = objective(rows, private, *expected)
    assert objective(rows, private, w, v) == pytest.approx(least, rel=1e-5)
    assert least < 0.8 * objective(rows, private, 0 * w, 0 * v)


def test_the_tolerance_of_every_day_is_near():
    rows = make_rows()
    phi = both_views(rows)

    def scores(solution: Solution) -> np.ndarray:
        w, v = joined(solution)
        return (phi * (w + v[rows["d"]])).sum(axis=1)

    usual = with_defaults(rows)
    np.testing.assert_allclose(scores(usual), scores(solve(rows, 0.5)), atol=0.05)


def test_without_private_weights_domains_do_not_matter():
    rows = make_rows()
    of_words, of_dense, bias = solve(rows, 0.0)
    np.testing.assert_array_equal(of_words[1:], 0)
    np.testing.assert_array_equal(of_dense[1:], 0)
    np.testing.assert_array_equal(bias[1:], 0)
    together = solve({**rows, "d": np.zeros(N, int)}, 0.0)
    for found, expected in zip((of_words, of_dense, bias), together, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_domain_without_rows_has_no_private_weights():
    _, v = joined(solve(make_rows(), 1.0))
    np.testing.assert_array_equal(v[1], 0)
    assert min(np.abs(v[[0, 2]]).max(axis=1)) > 0.05


def test_the_order_of_domains_does_not_matter():
    rows = make_rows()
    new_code = np.array([2, 0, 1])
    before = solve(rows, 0.7)
    after = solve({**rows, "d": new_code[rows["d"]]}, 0.7)
    place = np.r_[0, 1 + new_code]
    for found, expected in zip(after, before, strict=True):
        np.testing.assert_array_equal(found[place], expected)


def test_the_order_of_rows_does_not_matter():
    rows = make_rows()
    order = np.random.default_rng(1).permutation(N)
    before = solve(rows, 0.7)
    after = solve({name: value[order] for name, value in rows.items()}, 0.7)
    for found, expected in zip(after, before, strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-4)


@pytest.mark.parametrize("start", [False, True])
def test_a_length_is_a_factor_of_the_dense_view(start: bool):
    rows = make_rows()
    rows["dense"] = rows["dense"].astype(np.float32)
    dual = np.linspace(0, 0.1, N) if start else None
    multiplied = {**rows, "dense": rows["dense"] * np.float32(0.7)}
    expected = with_defaults(multiplied, start=dual)
    for found, wanted in zip(with_defaults(rows, length=0.7, start=dual), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert np.abs(with_defaults(rows)[1] - expected[1]).max() > 0.01


def test_the_same_rows_give_the_same_bits():
    first, second = (with_defaults(make_rows()) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_cost_of_2_is_the_row_twice():
    rows = make_rows()
    twice = {name: (value[np.r_[0, np.arange(N)]]) for name, value in rows.items()}
    heavy = {**rows, "cost": rows["cost"] * np.r_[2, np.ones(N - 1)]}
    for found, expected in zip(solve(heavy, 0.5), solve(twice, 0.5), strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-4)


def dual(rows: dict[str, Any], private: float) -> np.ndarray:
    own = domain_columns(rows["sparse"], rows["d"], N_DOMAINS)
    return solve_two_views(**rows, own=own, private=private, tolerance=1e-6, max_passes=5_000).alpha


@pytest.mark.parametrize("private", [0.0, 0.5])
@pytest.mark.parametrize("factor", [1.0, 7.0])
def test_from_its_own_dual_variables_up_to_a_factor_a_solution_takes_one_pass(private: float, factor: float):
    rows = make_rows()
    once = solve(rows, private, start=factor * dual(rows, private), max_passes=1)
    from_nothing = solve(rows, private, max_passes=1)
    for found, cold, expected in zip(once, from_nothing, solve(rows, private), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-4)
        assert np.abs(cold - expected).max() > 0.01


def test_where_a_solution_starts_from_does_not_matter():
    rows = make_rows()
    start = dual({**rows, "cost": 0.1 * rows["cost"]}, 0.5)
    for found, expected in zip(solve(rows, 0.5, start=start), solve(rows, 0.5), strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-4)


def test_domains_have_private_weights_of_the_columns_that_they_have():
    x = csr_matrix(np.array([[1.0, 0, 2, 0], [0, 0, 3, 0], [0, 5, 0, 0], [4, 0, 0, 0]]))
    d = np.array([2, 0, 0, 2])
    own = domain_columns(x, d, 4)
    of_domain = [own.columns[start:end].tolist() for start, end in zip(own.starts[:-1], own.starts[1:], strict=True)]
    assert of_domain == [[2, 1], [], [0, 2], []]
    assert own.place.tolist() == [2, 3, 0, 1, 2]
    row_of = np.repeat(np.arange(4), np.diff(x.indptr))
    np.testing.assert_array_equal(own.columns[own.place], x.indices)
    assert np.searchsorted(own.starts, own.place, side="right").tolist() == (1 + d[row_of]).tolist()
