"""Choosing on development rows: which candidate wins, when it is given up, and what accuracy is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from reports import Reports
from scipy.sparse import csr_matrix

from multidomain.errors import TrainingError
from multidomain.methods.data import Examples
from multidomain.methods.selection import NEVER_CHOSEN, dev_rows, dev_score, fit_best, fit_first_good


class Trial:
    """Candidates 0, 1, 2, ... that reach the given accuracies; what is fitted for one is its number times ten."""

    def __init__(self, accuracies: Sequence[float], n_dev: int = 10_000, rule: Callable[..., Any] = fit_best):
        self.accuracies = accuracies
        self.all_fitted: list[int] = []
        context = Reports()
        candidates = [{"C": i} for i in range(len(accuracies))]
        self.fitted, self.chosen = rule(candidates, self._fit, self._accuracy, context, n_dev=n_dev)
        self.told = context.told

    def _fit(self, values: Mapping[str, Any]) -> int:
        self.all_fitted.append(values["C"])
        return 10 * values["C"]

    def _accuracy(self, fitted: int) -> float:
        return self.accuracies[fitted // 10]


@pytest.mark.parametrize(
    ("accuracies", "best"),
    [
        pytest.param([0.7, 0.9, 0.8], 1, id="in the middle"),
        pytest.param([0.9, 0.8, 0.7], 0, id="the first"),
        pytest.param([0.7, 0.8, 0.9], 2, id="the last"),
        pytest.param([0.7, 0.9, 0.9, 0.9], 1, id="the earliest of equals"),
        pytest.param([0.5], 0, id="the only one"),
        pytest.param([0.0, 0.0], 0, id="none is right about anything"),
    ],
)
def test_the_best_candidate_is_kept(accuracies: list[float], best: int):
    trial = Trial(accuracies)
    assert (trial.fitted, trial.chosen) == (10 * best, {"C": best})
    assert trial.told == [({"C": i}, accuracy) for i, accuracy in enumerate(accuracies)]


@pytest.mark.parametrize(("n", "middle"), [(1, 0), (3, 1), (4, 2), (11, 5)])
def test_without_development_rows_the_middle_is_taken(n: int, middle: int):
    trial = Trial([0.5] * n, n_dev=0)
    assert (trial.fitted, trial.chosen) == (10 * middle, {"C": middle})
    assert trial.told == [({"C": middle}, None)]
    assert trial.all_fitted == [middle]


@pytest.mark.parametrize(
    ("accuracies", "n_tried"),
    [
        pytest.param([0.9, 0.87, 0.8, 0.7, 0.6, 0.99], 5, id="four in a row"),
        pytest.param([0.9, 0.87, 0.8, 0.7, 0.89, 0.99], 6, id="three, then one that is near"),
        pytest.param([0.9, 0.8, 0.8, 0.8, 0.91, 0.8, 0.8, 0.8, 0.99], 9, id="three, then a better one, then three"),
        pytest.param([0.9, 0.885, 0.885, 0.885, 0.885, 0.885, 0.99], 7, id="never far below"),
        pytest.param([0.5, 0.9, 0.87, 0.87, 0.87, 0.87, 0.99], 6, id="below the best, not below the first"),
    ],
)
def test_the_rest_is_left_out_when_there_is_no_hope(accuracies: list[float], n_tried: int):
    trial = Trial(accuracies)
    assert [values["C"] for values, _ in trial.told] == list(range(n_tried))
    assert trial.chosen == {"C": int(np.argmax(accuracies[:n_tried]))}


def rows_of(d: list[int], y: list[int]) -> Examples:
    return Examples(csr_matrix((len(d), 1)), np.array(d), np.array(y))


def test_accuracy_is_the_mean_over_domains_not_over_rows():
    scores = np.array([[2.0, 1.0, 0.0], [0.0, 3.0, 1.0], [0.0, 1.0, 5.0], [1.0, 0.0, 0.0], [0.2, 0.1, 0.0]])
    dev = rows_of(d=[4, 4, 4, 4, 1], y=[0, 1, 2, 1, 2])  # 3 of 4 right in one domain, 0 of 1 in the other
    assert dev_score(scores, dev, "accuracy") == pytest.approx((3 / 4 + 0) / 2)
    assert dev_score(scores, dev, "worst-domain") == 0
    # Domain 4: F1 is 2/3, 2/3 and 1. Domain 1: classes 0 and 2 occur, and neither is ever right.
    assert dev_score(scores, dev, "macro-f1") == pytest.approx((7 / 9 + 0) / 2)


@pytest.mark.parametrize(
    ("d", "metric", "rows"),
    [
        ([4, 4, 4, 1], "accuracy", 4),
        ([4, 4, 4, 1], "macro-f1", 4),
        ([4, 4, 4, 1], "worst-domain", 1),
        ([4, 4, 1, 1, 1], "worst-domain", 2),
        ([], "worst-domain", 0),
        ([], "accuracy", 0),
    ],
)
def test_the_score_of_the_worst_domain_rests_on_the_rows_of_one_domain(d: list[int], metric: Any, rows: int):
    assert dev_rows(rows_of(d, [0] * len(d)), metric) == rows


def test_few_development_rows_say_little_about_what_is_hopeless():
    accuracies = [0.70, 0.65, 0.65, 0.65, 0.65, 0.95]
    assert Trial(accuracies, n_dev=10_000).chosen == {"C": 0}
    assert Trial(accuracies, n_dev=20).chosen == {"C": 5}


@pytest.mark.parametrize(("others", "chosen"), [(0.83, 0), (0.85, 5)])
def test_hopeless_is_two_standard_errors_below_the_best(others: float, chosen: int):
    """Of 0.9 on 100 rows that is 0.06."""
    assert Trial([0.9, *[others] * 4, 0.99], n_dev=100).chosen == {"C": chosen}


@pytest.mark.parametrize(
    ("accuracies", "n_dev", "chosen"),
    [
        # One standard error of 0.9 on 100 rows is 0.03, of 0.8 on 400 rows 0.02.
        pytest.param([0.88, 0.9, 0.89], 100, 0, id="the first, near enough"),
        pytest.param([0.86, 0.88, 0.9], 100, 1, id="the first is too far below, the second is not"),
        pytest.param([0.8, 0.86, 0.9], 100, 2, id="only the best"),
        pytest.param([0.86, 0.88, 0.9], 10_000, 2, id="many rows tell them apart"),
        pytest.param([0.9, 0.88, 0.86], 100, 0, id="the best is the first"),
        pytest.param([0.785, 0.775, 0.8], 400, 0, id="other numbers"),
        pytest.param([0.775, 0.785, 0.8], 400, 1, id="other numbers, the other way round"),
        pytest.param([0.99, 1.0, 1.0], 100, 1, id="nothing is near to no error at all"),
        pytest.param([0.1, 0.1, 0.1, 0.1, 0.1, 0.9], 100, 5, id="none is given up"),
        pytest.param([0.0], 100, 0, id="the only one"),
    ],
)
def test_the_first_within_one_standard_error_of_the_best_is_taken(accuracies: list[float], n_dev: int, chosen: int):
    trial = Trial(accuracies, n_dev, fit_first_good)
    assert (trial.fitted, trial.chosen) == (10 * chosen, {"C": chosen})
    assert trial.told == [({"C": i}, accuracy) for i, accuracy in enumerate(accuracies)]


def test_without_development_rows_the_first_is_taken():
    trial = Trial([0.1, 0.9, 0.5], 0, fit_first_good)
    assert (trial.fitted, trial.chosen) == (0, {"C": 0})
    assert trial.told == [({"C": 0}, None)]
    assert trial.all_fitted == [0]


@pytest.mark.parametrize("rule", [fit_best, fit_first_good])
def test_predictions_that_are_not_finite_are_never_chosen(rule: Callable[..., Any]):
    """Even where all the others are wrong about everything."""
    bad = dev_score(np.array([[0.0, np.nan]] * 4), four_rows(), "accuracy")
    assert bad == NEVER_CHOSEN
    assert dev_score(np.array([[0.0, -np.inf]] * 4), four_rows(), "accuracy") == NEVER_CHOSEN
    assert Trial([bad, 0.0, bad, 0.0, bad], rule=rule).chosen == {"C": 1}
    assert Trial([bad] * 6 + [0.9, bad], rule=rule).chosen == {"C": 6}, "nor do they count as hopeless"
    with pytest.raises(TrainingError, match=r"has diverged: predictions on the dev set are not finite, whatever"):
        Trial([bad, bad], rule=rule)


def four_rows() -> Examples:
    return Examples(csr_matrix((4, 1)), np.zeros(4, dtype=np.int64), np.array([0, 1, 0, 1]))
