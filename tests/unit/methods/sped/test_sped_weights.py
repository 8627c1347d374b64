"""Weights of both views: logits against loops, and weights as earlier versions have saved them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from multidomain.methods.calibration import Calibration
from multidomain.methods.registry import method_entry
from multidomain.methods.sped.earlier import converted
from multidomain.methods.sped.weights import BothViews, Weights
from multidomain.methods.task import Task

COLUMNS, SIZE, DOMAINS = 6, 3, 3


def make_weights(n_classes: int) -> Weights:
    """Domain 0 has private weights of two columns, domain 1 none, domain 2 of one."""
    random = np.random.default_rng(0)
    n_scores = 1 if n_classes == 2 else n_classes
    return Weights(
        shared=random.normal(size=(n_scores, COLUMNS)).astype(np.float32),
        private=random.normal(size=(n_scores, 3)).astype(np.float32),
        columns=np.array([4, 1, 2], dtype=np.int32),
        starts=np.array([0, 2, 2, 3]),
        denoised=random.normal(size=(n_scores, 1 + DOMAINS, SIZE)).astype(np.float32),
        scale=np.array([0.5, 1.0, 2.0, 3.0]),
        bias=random.normal(size=(1 + DOMAINS, n_classes)),
    )


def make_rows() -> BothViews:
    random = np.random.default_rng(1)
    words = random.random((8, COLUMNS)) * (random.random((8, COLUMNS)) < 0.6)
    denoised = random.normal(size=(8, SIZE)).astype(np.float32)
    return BothViews(csr_matrix(words, dtype=np.float32), denoised, np.array([0, 2, 1, 0, 2, 2, 1, 0]))


def naive_logits(weights: Weights, words: np.ndarray, denoised: np.ndarray, d: int | None) -> list[float]:
    """The logits of one row, number by number."""
    copy, own = (0, {}) if d is None else (1 + d, {})
    for place in range(0) if d is None else range(weights.starts[d], weights.starts[d + 1]):
        own[weights.columns[place]] = place
    scores = []
    for c in range(len(weights.shared)):
        score = sum(denoised[k] * weights.denoised[c, copy, k] for k in range(SIZE))
        for j in range(COLUMNS):
            private = weights.private[c, own[j]] if j in own else 0.0
            score += words[j] * (weights.shared[c, j] + private)
        scores.append(weights.scale[copy] * score)
    if weights.bias.shape[1] == 2:
        scores = [-scores[0] / 2, scores[0] / 2]
    return [score + bias for score, bias in zip(scores, weights.bias[copy], strict=True)]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_logits_are_those_of_a_loop(n_classes: int):
    weights, rows = make_weights(n_classes), make_rows()
    words = rows.words.toarray()
    expected = [naive_logits(weights, words[i], rows.denoised[i], d) for i, d in enumerate(rows.d)]
    np.testing.assert_allclose(weights.logits(rows), expected, rtol=1e-5, atol=1e-6)
    unknown = [naive_logits(weights, words[i], rows.denoised[i], None) for i in range(8)]
    np.testing.assert_allclose(weights.logits_of(rows.words, rows.denoised, None), unknown, rtol=1e-5, atol=1e-6)
    before = weights.shared.copy()
    weights.logits(rows)
    np.testing.assert_array_equal(weights.shared, before)


def test_calibration_scales_and_shifts_the_logits_of_each_domain():
    weights, rows = make_weights(2), make_rows()
    calibrations = [Calibration(scale, np.array([-b, b])) for scale, b in ((1, 0), (2, 0.1), (3, 0.2), (4, 0.3))]
    before, after = weights.logits(rows), weights.calibrated(calibrations).logits(rows)
    expected = [calibrations[1 + d].logits(row) for d, row in zip(rows.d, before, strict=True)]
    np.testing.assert_allclose(after, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"starts": np.array([0, 2, 1, 3])}, "do not fit their places"),
        ({"starts": np.array([1, 2, 2, 3])}, "do not fit their places"),
        ({"starts": np.array([0, 2, 2, 4])}, "do not fit their places"),
        ({"private": np.zeros((1, 2), dtype=np.float32)}, "do not fit their places"),
        ({"columns": np.array([4, 1, COLUMNS], dtype=np.int32)}, "columns that there are not"),
        ({"columns": np.array([-1, 1, 2], dtype=np.int32)}, "columns that there are not"),
    ],
)
def test_weights_that_contradict_themselves_are_refused(change: dict[str, np.ndarray], message: str):
    with pytest.raises(ValueError, match=message):
        replace(make_weights(2), **change).check()


def earlier(n_classes: int) -> dict[str, np.ndarray]:
    """Dense weights of a model of three domains."""
    random = np.random.default_rng(2)
    weight = np.repeat(random.normal(size=(1, COLUMNS, n_classes)), 1 + DOMAINS, axis=0)
    weight[1, [0, 4]] += 1
    weight[3, 2] -= 0.5
    place = np.array([4, 1, 4, 0, 2, 3])
    projection = np.r_[random.normal(size=(4, SIZE)), np.zeros((1, SIZE))]
    parts = {
        "weight": weight,
        "denoised_weight": random.normal(size=(1 + DOMAINS, SIZE, n_classes)),
        "bias": random.normal(size=(1 + DOMAINS, n_classes)),
        "views.evidence": np.ones(COLUMNS),
        "views.projection": projection,
    }
    return {name: part.astype(np.float32) for name, part in parts.items()} | {"views.place": place}


@pytest.mark.parametrize("n_classes", [2, 3])
def test_earlier_weights_give_the_same_differences_of_logits(n_classes: int):
    saved, x = earlier(n_classes), np.random.default_rng(3).random((5, COLUMNS)).astype(np.float32)
    entry = method_entry("sped")
    method = entry.build(Task(COLUMNS, n_classes, ("a", "b", "c"), (0, 1, 2)), entry.settings({}))
    method.load_weights(saved)
    words = x / np.linalg.norm(x, axis=1, keepdims=True)
    denoised = x @ saved["views.projection"][saved["views.place"]]
    denoised /= np.linalg.norm(denoised, axis=1, keepdims=True)
    for d in (None, 0, 1, 2):
        copy = 0 if d is None else 1 + d
        expected = words @ saved["weight"][copy] + denoised @ saved["denoised_weight"][copy] + saved["bias"][copy]
        found = method.logits(csr_matrix(x), d)
        np.testing.assert_allclose(np.diff(found, axis=1), np.diff(expected, axis=1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("views.place", None, "'views.place' is missing"),
        ("weight", np.zeros((2, 3), dtype=np.float32), "'weight' should be"),
        ("views.place", np.array([4, 1, 4, 1, 2, 3]), "does not fit"),
        ("views.place", np.array([4, -1, 4, 0, 2, 3]), "does not fit"),
    ],
)
def test_earlier_weights_that_cannot_be_converted_are_refused(name: str, value: np.ndarray | None, message: str):
    saved = earlier(2)
    if value is None:
        del saved[name]
    else:
        saved[name] = value
    with pytest.raises(ValueError, match=message):
        converted(saved)
