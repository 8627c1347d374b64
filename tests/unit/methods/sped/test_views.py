"""The two views of a document, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from multidomain.methods.data import Examples
from multidomain.methods.denoising import denoising_projection
from multidomain.methods.evidence import class_evidence
from multidomain.methods.sped.views import TwoViews

COLUMNS = 6


def random_text(n: int, seed: int) -> np.ndarray:
    """Word weights; the columns occur in 3/10 to 8/10 of the rows, in no order."""
    random = np.random.default_rng(seed)
    return (random.random((n, COLUMNS)) + 0.1) * (random.random((n, COLUMNS)) < [0.5, 0.8, 0.3, 0.7, 0.4, 0.6])


def rows(x: np.ndarray, y: np.ndarray | None = None) -> Examples:
    return Examples(csr_matrix(x, dtype=np.float32), np.zeros(len(x), int), y)


LABELLED = rows(random_text(20, 0), np.arange(20) % 3)
TEXT = rows(random_text(300, 1))


def fitted(n_words: int = 4, size: int = 3, evidence: float = 0.6) -> TwoViews:
    views = TwoViews(COLUMNS, n_words, size)
    views.fit(LABELLED, TEXT, 3, evidence, noise=0.7)
    return views


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True).clip(1e-12)


@pytest.mark.parametrize("evidence", [0.0, 0.6, 1.0])
def test_words_are_weighted_by_their_evidence(evidence: float):
    x = random_text(15, 2)
    words, _ = fitted(evidence=evidence).of(rows(x).x)
    factor = (1 - evidence) + evidence * class_evidence(LABELLED, 3)
    np.testing.assert_allclose(words.toarray(), unit(x * factor), atol=1e-6)


def test_without_evidence_words_weigh_what_they_did():
    views = fitted(evidence=0.0)
    np.testing.assert_array_equal(views.evidence, np.ones(COLUMNS))


@pytest.mark.parametrize("n_words", [4, COLUMNS, 99])
def test_the_most_frequent_words_are_denoised(n_words: int):
    x, text = random_text(15, 2), TEXT.x
    views = fitted(n_words)
    frequent = sorted([1, 3, 5, 0, 4, 2][:n_words])
    counts = (text.toarray() != 0).sum(axis=0)
    assert set(frequent) == set(np.argsort(-counts)[:n_words])
    factor = 0.4 + 0.6 * class_evidence(LABELLED, 3)
    projection = denoising_projection(text[:, frequent], 0.7, factor[frequent], 3)
    expected = unit(x[:, frequent] @ projection)
    np.testing.assert_allclose(views.of(rows(x).x)[1], expected, atol=1e-5)
    if n_words == 4:
        x[:, [4, 2]] = 9  # which are not denoised, so the second view does not see them
        np.testing.assert_allclose(views.of(rows(x).x)[1], expected, atol=1e-5)


def test_a_row_without_words_is_nothing_in_both_views():
    words, denoised = fitted().of(rows(np.zeros((2, COLUMNS))).x)
    np.testing.assert_array_equal(words.toarray(), 0)
    np.testing.assert_array_equal(denoised, 0)


def test_without_a_second_view_nothing_is_projected():
    views = fitted(size=0)
    assert views.projection.size == len(views.columns) == 0
    assert views.of(rows(random_text(15, 2)).x)[1].shape == (15, 0)


@pytest.mark.parametrize(("n_words", "size", "expected"), [(4, 99, 4), (99, 99, COLUMNS), (99, 2, 2)])
def test_there_are_no_more_directions_than_words(n_words: int, size: int, expected: int):
    views = fitted(n_words, size)
    assert views.projection.shape[1] == expected
    assert views.of(rows(random_text(15, 2)).x)[1].shape == (15, expected)


def test_what_is_learnt_is_what_is_declared():
    views = fitted(n_words=4, size=3)
    assert views.projection.shape == (4, 3)
    assert all(spec.fits(getattr(views, name)) for name, spec in views.arrays().items())
    views.check()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([0, 1, 2], "does not fit"),
        ([0, 1, 2, 2], "does not fit"),
        ([2, 1, 3, 4], "does not fit"),
        ([-1, 1, 2, 3], "columns that there are not"),
        ([0, 1, 2, COLUMNS], "columns that there are not"),
    ],
)
def test_a_projection_of_impossible_columns_is_refused(columns: list[int], message: str):
    views = fitted(n_words=4, size=3)
    views.columns = np.array(columns, dtype=np.int32)
    with pytest.raises(ValueError, match=message):
        views.check()
