"""Evidence of a column for the classes, against loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from multidomain.methods.data import Examples
from multidomain.methods.evidence import class_evidence

COLUMNS = 6


def rows(n_classes: int, weighted: bool) -> tuple[np.ndarray, Examples]:
    """Rows with values that are not 1, negative ones too, and a last column that never occurs."""
    random = np.random.default_rng(n_classes)
    x = random.normal(size=(20, COLUMNS)) * (random.random((20, COLUMNS)) < 0.4)
    x[:, -1] = 0
    weight = random.uniform(0.2, 3, size=20) if weighted else None
    y = np.arange(20) ** 2 % n_classes  # not the same number of each
    return x, Examples(csr_matrix(x), np.zeros(20, int), y, weight)


def naive_evidence(x: np.ndarray, y: np.ndarray, weight: np.ndarray, n_classes: int, smoothing: float) -> list[float]:
    def counts(chosen: list[int]) -> list[float]:
        found = [sum(weight[i] for i in chosen if x[i, j] != 0) for j in range(x.shape[1])]
        share = sum(found) / sum(weight[i] for i, j in zip(*x.nonzero(), strict=True))
        return [2 * smoothing * share + count for count in found]

    best = [0.0] * x.shape[1]
    for c in set(y.tolist()):
        p = counts([i for i in range(len(x)) if y[i] == c])
        q = counts([i for i in range(len(x)) if y[i] != c])
        for j in range(x.shape[1]):
            best[j] = max(best[j], abs(math.log((p[j] / sum(p)) / (q[j] / sum(q)))))
    return best


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [1.0, 0.3])
@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_evidence_is_the_formula(n_classes: int, smoothing: float, weighted: bool):
    x, examples = rows(n_classes, weighted)
    weight = np.ones(20) if examples.weight is None else examples.weight
    expected = naive_evidence(x, examples.y, weight, n_classes, smoothing)
    found = class_evidence(examples, n_classes, smoothing)
    assert found.shape == (COLUMNS,) and max(expected) > 0.5
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_a_word_that_nobody_has_labelled_has_no_evidence_whatever_the_classes():
    _, examples = rows(4, weighted=True)
    assert class_evidence(examples, 4)[-1] == pytest.approx(0, abs=1e-12)


def test_without_rows_of_two_classes_no_word_has_evidence():
    _, examples = rows(3, weighted=False)
    of_one_class = Examples(examples.x, examples.d, np.ones(20, int))
    assert class_evidence(of_one_class, 3).tolist() == [0.0] * COLUMNS


def test_names_of_classes_do_not_matter():
    _, examples = rows(3, weighted=True)
    renamed = Examples(examples.x, examples.d, (examples.y + 1) % 3, examples.weight)
    np.testing.assert_allclose(class_evidence(renamed, 3), class_evidence(examples, 3), rtol=1e-12)


def test_a_word_of_one_class_says_more_than_a_word_of_both():
    x = np.array([[1.0, 1, 0], [1, 1, 0], [1, 0, 1], [1, 0, 1]])
    of_both, *of_one = class_evidence(Examples(csr_matrix(x), np.zeros(4, int), np.array([0, 0, 1, 1])), 2)
    assert of_both == pytest.approx(0, abs=1e-12)
    assert of_one == pytest.approx([math.log(3), math.log(3)])
