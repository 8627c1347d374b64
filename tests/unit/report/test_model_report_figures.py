"""What a report computes, against naive loops and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from multidomain.report.model.calibration import calibration
from multidomain.report.model.coverage import COVERAGES, covered
from multidomain.report.model.folder import Answers
from multidomain.report.model.markup import escaped, listed, tag
from multidomain.report.model.projection import in_the_plane
from multidomain.report.model.quality import LETTERS, shortened
from multidomain.report.model.scores import same_kind_among_neighbours, wilson


@pytest.mark.parametrize(("right", "n"), [(0, 7), (7, 7), (46, 60), (1, 1), (300, 400), (3, 1000)])
def test_wilson_interval_is_scipys(right: int, n: int) -> None:
    expected = stats.binomtest(right, n).proportion_ci(0.95, method="wilson")
    found = wilson(right / n, n)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert found.holds(right / n) and not found.holds(-0.1)


def naive_ece(confidence: np.ndarray, correct: np.ndarray) -> float:
    """15 bins of equally many rows, the first ones with one more."""
    rows = sorted(zip(confidence, correct, strict=True), key=lambda row: row[0])
    error, start = 0.0, 0
    for number in range(15):
        size = len(rows) // 15 + (number < len(rows) % 15)
        here, start = rows[start : start + size], start + size
        sure, right = [c for c, _ in here], [r for _, r in here]
        error += size / len(rows) * abs(sum(right) / size - sum(sure) / size)
    return error


def made_up(confidence: np.ndarray, correct: np.ndarray) -> Answers:
    n = len(confidence)
    domains = np.full(n, "a", dtype=object)
    return Answers(np.arange(n), domains, domains, np.ones(n, dtype=int), correct.astype(int), confidence)


def test_calibration_error_equals_a_naive_loop() -> None:
    random = np.random.default_rng(3)
    confidence = np.r_[random.uniform(0.34, 1, 500), [0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]]  # ends of bins too
    correct = random.random(len(confidence)) < 0.6
    found = calibration(made_up(confidence, correct))
    assert found.error == pytest.approx(naive_ece(confidence, correct))
    assert sum(one.rows for one in found.bins) == len(confidence)
    assert found.bins[0].rows == sum(confidence <= 0.4)


def test_calibration_error_by_chance_is_that_of_a_calibrated_model() -> None:
    random = np.random.default_rng(4)
    confidence = random.uniform(0.5, 1, 300)
    errors = [calibration(made_up(confidence, random.random(300) < confidence)).error for _ in range(300)]
    assert calibration(made_up(confidence, confidence > 0)).by_chance == pytest.approx(np.mean(errors), rel=0.1)


def test_thresholds_give_the_coverage_and_accuracy_that_predict_would_have() -> None:
    random = np.random.default_rng(5)
    confidence = np.round(random.uniform(0.5, 1, 211), 2)  # many are equal
    correct = random.random(211) < confidence
    for coverage in (*COVERAGES, 0.01, 0.333):
        found = covered(made_up(confidence, correct), coverage)
        kept = [right for sure, right in zip(confidence, correct, strict=True) if sure >= found.threshold]
        assert (found.rows, found.coverage) == (len(kept), len(kept) / 211)
        assert found.accuracy.share == pytest.approx(sum(kept) / len(kept))
        assert found.coverage >= coverage, "never less than asked for"
        fewer = sum(sure > min(c for c in confidence if c >= found.threshold) for sure in confidence)
        assert fewer < coverage * 211, "the next higher threshold would cover less"
    assert covered(made_up(confidence, correct), 1.0).threshold == 0


@pytest.mark.parametrize(
    ("lower", "threshold", "rows"),
    [(0.8, 0.91, 1), (0.9122, 0.9123, 1), (0.91234, 0.912345, 1), (0.9123456, 0.912345, 2)],
)
def test_a_threshold_is_rounded_down_to_as_few_digits_as_will_do(lower: float, threshold: float, rows: int) -> None:
    confidence = np.array([0.912345678, lower])
    found = covered(made_up(confidence, np.array([True, False])), 0.5)
    assert (found.threshold, found.rows, found.accuracy.share) == (threshold, rows, 1 / rows)


def test_long_texts_are_cut_after_a_word() -> None:
    assert shortened("a  short\n text") == "a short text"
    cut = shortened("word " * 100)
    assert cut.endswith("word …") and LETTERS - 10 < len(cut) <= LETTERS + 2
    assert shortened("x" * 1000) == "x" * LETTERS + " …"


def test_what_no_page_can_hold_is_replaced() -> None:
    assert escaped("a\x00b\ud800c<") == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c&lt;"
    assert tag("p", tag("b", "<"), title='"') == '<p title="&quot;"><b>&lt;</b></p>'
    assert listed(["a"]) == "a" and listed(["a", "b", "c"]) == "a, b and c"
    assert listed(list("abcdefg")) == "a, b, c, d, e and 2 more"


def test_neighbours_of_the_same_kind_are_counted_as_by_a_naive_loop() -> None:
    random = np.random.default_rng(0)
    features, kinds = random.normal(size=(30, 3)), random.choice(["a", "b", "c"], 30)
    shares, pairs = [], []
    for i in range(30):
        others = [j for j in range(30) if j != i]
        nearest = sorted(others, key=lambda j: float(np.linalg.norm(features[i] - features[j])))[:10]
        shares += [kinds[i] == kinds[j] for j in nearest]
        pairs += [kinds[i] == kinds[j] for j in others]
    assert same_kind_among_neighbours(features, kinds) == pytest.approx((np.mean(shares), np.mean(pairs)))


def test_groups_that_are_far_apart_stay_apart_in_the_plane() -> None:
    random = np.random.default_rng(0)
    features = random.normal(size=(60, 80)) + 20 * np.repeat([[0], [1]], 30, axis=0)
    places = in_the_plane(features)
    centres = places[:30].mean(axis=0), places[30:].mean(axis=0)
    nearer = [np.linalg.norm(places - centre, axis=1) for centre in centres]
    assert ((nearer[1] < nearer[0]) == np.repeat([False, True], 30)).all()
