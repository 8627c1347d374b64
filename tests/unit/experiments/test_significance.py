"""Each test of significance against an independent implementation of it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from multidomain.errors import DataError
from multidomain.experiments.significance import combined_test, holm, paired_macro_f1, paired_test, published_test
from multidomain.metrics import macro_f1


def answers(rng: np.random.Generator, rows: int, accuracy: float, seeds: int = 3) -> np.ndarray:
    """How often each row is answered correctly, over some seeds."""
    difficulty = rng.random(rows) * 0.3
    return (rng.random((seeds, rows)) < accuracy - difficulty).mean(axis=0)


def test_published_test_is_the_textbook_formula() -> None:
    averages = [85.2, 85.9, 85.5, 86.1, 85.4]
    t = (np.mean(averages) - 85.18) / (np.std(averages, ddof=1) / np.sqrt(5))
    assert published_test(averages, 85.18) == pytest.approx(2 * stats.t.sf(abs(t), df=4), rel=1e-12)


def test_published_test_is_two_sided() -> None:
    below, above = published_test([80.0, 80.2, 80.4], 81.2), published_test([82.0, 82.2, 82.4], 81.2)
    assert below == pytest.approx(above)
    assert below is not None and below < 0.05


def test_combined_test_is_that_of_a_mean_of_independent_differences() -> None:
    differences, errors = [-0.5, 0.1, -0.3, -0.2], [0.2, 0.1, 0.3, 0.15]
    found = combined_test(differences, errors)
    means = np.random.default_rng(0).normal(0, errors, size=(400_000, 4)).mean(axis=1)  # as if all were as published
    assert found.difference == pytest.approx(np.mean(differences))
    assert found.standard_error == pytest.approx(means.std(), rel=0.01)
    assert found.p == pytest.approx(np.mean(np.abs(means) >= abs(found.difference)), rel=0.05)
    assert combined_test([0.5, -0.1, 0.3, 0.2], errors).p == found.p


@pytest.mark.parametrize("averages", [[], [85.0], [85.0, 85.0, 85.0], [0.3, 0.1 + 0.2]])
def test_published_test_needs_something_that_varies(averages: list[float]) -> None:
    assert published_test(averages, 84.0) is None


def test_paired_test_of_one_domain_is_a_paired_t_test() -> None:
    rng = np.random.default_rng(1)
    first, second = answers(rng, 4000, 0.92), answers(rng, 4000, 0.90)
    found, expected = paired_test({"books": first}, {"books": second}), stats.ttest_rel(first, second)
    assert found.difference == pytest.approx(first.mean() - second.mean())
    assert found.difference / found.standard_error == pytest.approx(expected.statistic, rel=1e-12)
    assert found.p == pytest.approx(expected.pvalue, rel=0.01)  # t with 3,999 degrees of freedom, not normal


def test_paired_test_agrees_with_flipped_signs() -> None:
    rng = np.random.default_rng(4)
    sizes = {"books": 300, "dvd": 500, "kitchen": 900}  # unequal, so that pooling the rows would be found out
    first = {name: answers(rng, rows, 0.91) for name, rows in sizes.items()}
    second = {name: answers(rng, rows, 0.885) for name, rows in sizes.items()}
    found = paired_test(first, second)

    flipped = np.zeros(4000)
    for name, rows in sizes.items():
        signs = rng.choice([-1.0, 1.0], size=(4000, rows))
        flipped += (signs * (first[name] - second[name])).mean(axis=1) / len(sizes)
    by_flips = np.mean(np.abs(flipped) >= abs(found.difference))
    assert 0.01 < by_flips < 0.5  # else the comparison says little
    assert found.p == pytest.approx(by_flips, abs=0.02)


def test_paired_test_weighs_domains_equally() -> None:
    large, small = np.tile([0.0, 1.0], 500), np.tile([1.0, 0.0], 5)
    found = paired_test({"a": large, "b": small}, {"a": large, "b": np.zeros(10)})
    assert found.difference == pytest.approx(0.25)  # b: 0.5, a: 0; pooled it would be 0.005
    assert found.standard_error == pytest.approx(np.std(small, ddof=1) / np.sqrt(10) / 2)


def test_paired_test_is_antisymmetric() -> None:
    rng = np.random.default_rng(3)
    first, second = {"a": answers(rng, 200, 0.9)}, {"a": answers(rng, 200, 0.8)}
    there, back = paired_test(first, second), paired_test(second, first)
    assert (there.difference, there.p) == (-back.difference, back.p)


def test_paired_test_of_equal_systems() -> None:
    rows = {"a": np.array([1.0, 0.0, 1.0])}
    assert paired_test(rows, rows).p == 1.0
    assert paired_test({"a": np.ones(3)}, {"a": np.zeros(3)}).p == 0.0


@pytest.mark.parametrize("other", [{"a": np.ones(4)}, {"b": np.ones(3)}, {"a": np.ones(3), "b": np.ones(3)}])
def test_paired_test_refuses_other_rows(other: dict[str, np.ndarray]) -> None:
    with pytest.raises(DataError, match="needs the same rows of both systems"):
        paired_test({"a": np.ones(3)}, other)


def naive_holm(p_values: list[float]) -> list[float]:
    """The definition: the largest factor times p among those that are not greater."""
    m, corrected = len(p_values), []
    for p in p_values:
        ranked = sorted(q for q in p_values if q <= p)
        corrected.append(min(1.0, max((m - i) * q for i, q in enumerate(ranked))))
    return corrected


def test_holm_is_its_definition() -> None:
    p_values = [0.04, 0.001, 0.3, 0.012, 0.9, 0.02]
    assert holm(p_values) == pytest.approx(naive_holm(p_values))
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])


def test_holm_of_one_and_of_none() -> None:
    assert holm([0.2]) == [0.2]
    assert holm([]) == []


def test_holm_never_exceeds_one() -> None:
    assert holm([0.7, 0.6, 0.9]) == [1.0, 1.0, 1.0]


# --- intervals ----------------------------------------------------------------------------------------


def test_the_interval_of_a_paired_test_is_normal() -> None:
    rng = np.random.default_rng(2)
    found = paired_test(*({d: answers(rng, 500, accuracy) for d in "ab"} for accuracy in (0.9, 0.85)))
    expected = stats.norm(found.difference, found.standard_error).interval(0.95)
    assert found.interval.value == found.difference
    assert (found.interval.low, found.interval.high) == pytest.approx(expected)


def predictions(rng: np.random.Generator, y: np.ndarray, right: float, seeds: int) -> np.ndarray:
    return np.where(rng.random((seeds, len(y))) < right, y, rng.integers(0, 3, (seeds, len(y))))


def naive_macro_f1(y: np.ndarray, of_seeds: np.ndarray) -> float:
    return float(np.mean([macro_f1(y, predicted) for predicted in of_seeds]))


@pytest.mark.parametrize("seeds", [(1, 1), (2, 3)])
def test_paired_macro_f1_is_a_bootstrap_over_rows(seeds: tuple[int, int]) -> None:
    """The same by drawing rows one resample at a time; the two samples differ in size."""
    rng = np.random.default_rng(3)
    samples = []
    for n in (120, 80):
        y = rng.choice(3, n, p=[0.6, 0.35, 0.05])
        samples.append((y, predictions(rng, y, 0.8, seeds[0]), predictions(rng, y, 0.7, seeds[1])))
    found, again = paired_macro_f1(samples, 2000), paired_macro_f1(samples, 2000)
    assert found == again != paired_macro_f1(samples, 2000, seed=1)

    def difference(rows: list[np.ndarray]) -> float:
        pairs = zip(samples, rows, strict=True)
        return float(np.mean([naive_macro_f1(y[r], a[:, r]) - naive_macro_f1(y[r], b[:, r]) for (y, a, b), r in pairs]))

    assert found.value == pytest.approx(difference([np.arange(len(y)) for y, _, _ in samples]))
    drawn = [difference([rng.integers(len(y), size=len(y)) for y, _, _ in samples]) for _ in range(500)]
    width = found.high - found.low
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])), abs=0.15 * width)


def test_paired_macro_f1_is_paired() -> None:
    """Two systems that err on the same rows differ by nothing, however small the sample."""
    rng = np.random.default_rng(4)
    y = rng.integers(0, 2, 50)
    same = np.where(rng.random(50) < 0.7, y, 1 - y)[None]
    found = paired_macro_f1([(y, same, same)])
    assert (found.value, found.low, found.high) == (0, 0, 0)


def test_classes_that_do_not_occur_do_not_count() -> None:
    y, first, second = np.array([0, 0, 0, 0]), np.array([[0, 0, 0, 0]]), np.array([[0, 0, 0, 1]])
    expected = 1 - (2 * 3 / 7 + 0) / 2  # the second system predicts class 1, which has no row
    assert paired_macro_f1([(y, first, second)]).value == pytest.approx(expected)


def test_classes_that_a_resample_lacks_do_not_count_in_it() -> None:
    rng = np.random.default_rng(5)
    y, first, second = np.array([0, 0, 0, 0, 0, 1]), np.array([[0, 0, 0, 0, 0, 1]]), np.array([[1, 0, 0, 0, 0, 1]])
    found = paired_macro_f1([(y, first, second)], 4000)
    rows = [rng.integers(6, size=6) for _ in range(4000)]
    drawn = [naive_macro_f1(y[r], first[:, r]) - naive_macro_f1(y[r], second[:, r]) for r in rows]
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])), abs=0.06)
    assert found.high > 0.5  # without a row of class 1 the first system has all, the second a class with none


def test_two_seeds_are_enough_for_a_test_against_a_published_figure() -> None:
    assert published_test([85.0, 86.0], 84.0) == pytest.approx(stats.ttest_1samp([85.0, 86.0], 84.0).pvalue)


def test_two_rows_of_a_domain_are_enough_for_a_paired_test() -> None:
    found = paired_test({"a": np.array([1.0, 1.0])}, {"a": np.array([0.0, 1.0])})
    assert (found.difference, found.standard_error) == (0.5, pytest.approx(0.5))


def test_rows_that_all_differ_by_the_same_have_no_standard_error() -> None:
    found = paired_test({"a": np.ones(3)}, {"a": np.full(3, 0.5)})
    assert (found.difference, found.standard_error, found.p) == (0.5, 0.0, 0.0)
