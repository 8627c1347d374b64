"""Reports of studies from made-up records, whose figures are worked out here by naive loops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from study_records import DOMAINS, MAN, PREVALENCES, RECIPES, record, study

from multidomain.errors import DataError
from multidomain.experiments.records import Record, pack, unpack
from multidomain.experiments.runner import Run, planned_runs
from multidomain.report.tables.studies import StudyResults, StudyVariant, aggregate_study, gap_closed
from multidomain.report.tables.study_cells import CellName, compare, prior_estimates

SPED, PLAIN, LR = "shared-private/SPED", "shared-private/SPED without self-training", "shared/LR"
CELLS = [(target, prevalence) for target in DOMAINS for prevalence in PREVALENCES]


def of(name: str, records: list[Record]) -> StudyResults:
    return aggregate_study(name, RECIPES[name], records)


def system_records(records: list[Record], system: str, text: str = "train") -> list[Record]:
    return [r for r in records if r["system"] == system and r["target_text"] == text]


def of_cell(records: list[Record], cell: tuple[str, int]) -> list[Record]:
    return [r for r in records if (r["target"], r["prevalence"]) == cell]


@pytest.fixture(scope="module")
def priors() -> list[Record]:
    return study("priors")


@pytest.fixture(scope="module")
def train(priors: list[Record]) -> StudyVariant:
    return of("priors", priors).variants[0]


# --- scores ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("system", "draws"), [("SPED", 3), ("LR", 3), ("MAN-NLL-SP-MLP", 1)])
def test_scores_are_means_over_draws_then_cells(priors, train, system: str, draws: int) -> None:
    ours = system_records(priors, system)
    found = next(s for s in train.systems if s.row.system == system)
    assert found.is_complete and found.draws == draws
    for part in ("test", "macro_f1", "calibration_error"):
        by_cell = {cell: 100 * np.mean([r[part][cell[0]] for r in of_cell(ours, cell)]) for cell in CELLS}
        assert found.cells(part) == pytest.approx(by_cell)
        assert found.mean(part) == pytest.approx(np.mean(list(by_cell.values())))
        at_25 = [value for (_, prevalence), value in by_cell.items() if prevalence == 25]
        assert found.mean_at(part, 25) == pytest.approx(np.mean(at_25))
        assert len(at_25) == 4 and found.mean_at(part, 25) != pytest.approx(found.mean(part))


def test_estimated_priors_are_compared_with_the_prevalence(priors) -> None:
    ours = system_records(priors, "SPED")
    errors, covered = [], 0
    for r in ours:
        estimate = r["class_priors"][r["target"]]["prior"]["positive"]
        errors.append(100 * abs(estimate - r["prevalence"] / 100))
        covered += abs(estimate - r["prevalence"] / 100) <= 0.1
    found = prior_estimates(ours)
    assert found is not None and found.error == pytest.approx(np.mean(errors))
    assert 0 < covered < len(ours) and found.covered == pytest.approx(100 * covered / len(ours))


def test_a_prior_that_was_not_estimated_has_no_error(priors) -> None:
    assert system_records(priors, PLAIN.split("/")[1])[0]["class_priors"]  # its source is "labelled"
    assert prior_estimates(system_records(priors, PLAIN.split("/")[1])) is None
    assert prior_estimates(system_records(priors, "LR")) is None


# --- comparisons ----------------------------------------------------------------------------------------


def naive_accuracy(ours: list[Record], theirs: list[Record], cell: tuple[str, int]) -> tuple[float, float, float]:
    """Mean difference of a cell over draws, and its interval: one row at a time; correctness is over seeds."""
    by_draw = []
    for draw in sorted({r["draw"] for r in of_cell(ours, cell)} & {r["draw"] for r in of_cell(theirs, cell)}):
        a, b = ([r for r in of_cell(records, cell) if r["draw"] == draw] for records in (ours, theirs))
        right = [[list(unpack(r["predictions"][cell[0]]) == unpack(r["truth"][cell[0]])) for r in x] for x in (a, b)]
        n = len(right[0][0])
        by_draw.append(
            [100 * (np.mean([s[i] for s in right[0]]) - np.mean([s[i] for s in right[1]])) for i in range(n)]
        )
    value = np.mean([np.mean(rows) for rows in by_draw])
    variance = sum(np.var(rows, ddof=1) / len(rows) for rows in by_draw) / len(by_draw) ** 2
    return float(value), float(value - 1.959964 * variance**0.5), float(value + 1.959964 * variance**0.5)


@pytest.mark.parametrize(("system", "draws"), [("SPED", 3), ("majority", 3), ("MAN-NLL-SP-MLP", 1)])
def test_differences_to_lr(priors, train, system: str, draws: int) -> None:
    ours, theirs = system_records(priors, system), system_records(priors, "LR")
    found = next(c for c in train.against_baseline if c.first.system == system)
    assert found.second.name == LR and [tuple(c.cell) for c in found.cells] == CELLS
    naive = {cell: naive_accuracy(ours, theirs, cell) for cell in CELLS}
    common = [r for r in theirs if r["draw"] <= draws]
    for c in found.cells:
        assert c.draws == draws
        assert (c.accuracy.value, c.accuracy.low, c.accuracy.high) == pytest.approx(naive[c.cell], abs=1e-4)
        for part, value in (("macro_f1", c.macro_f1.value), ("calibration_error", c.calibration_error)):
            a, b = (np.mean([r[part][c.cell.target] for r in of_cell(x, c.cell)]) for x in (ours, common))
            assert value == pytest.approx(100 * (a - b)), part
        assert c.macro_f1.low < c.macro_f1.value < c.macro_f1.high
    assert found.mean("accuracy") == pytest.approx(np.mean([value for value, _, _ in naive.values()]))
    assert found.worst("accuracy").cell == min(naive, key=lambda cell: naive[cell][0])
    assert found.below("accuracy", 0.5) == [cell for cell in CELLS if naive[cell][2] < -0.5]
    assert found.less_calibrated(2) == [c.cell for c in found.cells if c.calibration_error > 2]
    assert 0 < len(found.less_calibrated(2)) < 20


def test_below_is_where_the_whole_interval_is(train) -> None:
    majority = next(c for c in train.against_baseline if c.first.system == "majority")
    below = majority.below("accuracy", 0.5)
    assert 0 < len(below) <= 20
    edge = min(majority.cells, key=lambda c: c.accuracy.high)
    assert majority.below("accuracy", -edge.accuracy.high + 1e-9) == []
    assert majority.below("accuracy", -edge.accuracy.high - 1e-9) == [edge.cell]
    lowest = min(majority.cells, key=lambda c: c.macro_f1.high)
    assert majority.below("macro_f1", -lowest.macro_f1.high - 1e-9) == [lowest.cell]


def test_self_training_is_compared_with_going_without(priors, train) -> None:
    found = train.self_training
    assert found is not None and (found.first.name, found.second.name) == (SPED, PLAIN)
    pair = [system_records(priors, name.split("/")[1]) for name in (SPED, PLAIN)]
    naive = {cell: naive_accuracy(*pair, cell) for cell in CELLS}
    assert [c.accuracy.value for c in found.cells] == pytest.approx([naive[c.cell][0] for c in found.cells])


def test_systems_are_compared_on_what_both_have(priors) -> None:
    """LR lacks all draws of one cell, and a draw of another."""

    def lacks(r: Record) -> bool:
        cell = (r["target"], r["prevalence"])
        return r["system"] == "LR" and (cell == ("dvd", 50) or (cell == ("books", 10) and r["draw"] == 2))

    left = [r for r in priors if not lacks(r)]
    variant = of("priors", left).variants[0]
    lr, sped = variant.system(LR), variant.system(SPED)
    assert lr is not None and sped is not None and (len(lr.records), lr.wanted, lr.is_complete) == (56, 60, False)
    found = variant.against(sped)
    assert found is not None and len(found.cells) == 19 and ("dvd", 50) not in [c.cell for c in found.cells]
    books = next(c for c in found.cells if c.cell == ("books", 10))
    ours = [r for r in system_records(priors, "SPED") if r["draw"] != 2]
    naive = naive_accuracy(ours, system_records(left, "LR"), ("books", 10))
    assert books.draws == 2 and books.accuracy.value == pytest.approx(naive[0])
    assert sped.cells("test")[CellName("books", 10)] != pytest.approx(
        100 * np.mean([r["test"]["books"] for r in of_cell(ours, ("books", 10))])
    )


def test_systems_with_nothing_in_common_are_not_compared(priors) -> None:
    variant = of("priors", [r for r in priors if (r["system"] == "LR") == (r["draw"] == 3)]).variants[0]
    systems = [variant.system(name) for name in (SPED, LR)]
    assert all(systems) and compare(*systems) is None and variant.against_baseline == ()


def test_records_of_other_test_rows_are_refused(priors) -> None:
    shifted = [
        dict(r, truth={d: r["predictions"][d] for d in r["truth"]}) if r["system"] == "LR" else r for r in priors
    ]
    with pytest.raises(DataError, match=r"SPED and shared/LR differ in the test rows of books 10 %, draw 1: "):
        of("priors", shifted)


# --- which records count --------------------------------------------------------------------------------


def test_only_records_of_the_present_recipe_count(priors) -> None:
    stale = dict(priors[0], config={**priors[0]["config"], "method_settings": {"rounds": 99}})
    other_draw, other_labels = dict(priors[0], draw=9), dict(priors[0], target_labels=5)
    gone = dict(priors[0], system="SPED of old")
    found = of("priors", [stale, other_draw, other_labels, gone, *priors])
    assert (found.records.stale, found.records.superseded) == (4, 0)
    assert found.variants[0].systems == of("priors", priors).variants[0].systems
    assert found.source.records == len(priors)


def test_the_last_record_of_a_run_counts(priors) -> None:
    run = planned_runs("priors", RECIPES["priors"], ["LR"], None)[0]
    found = of("priors", [*priors, record(run, right=0.0)])
    assert found.records.superseded == 1
    lr = found.variants[0].system(LR)
    assert lr is not None and len(lr.records) == 60 and lr.records[0]["test"]["books"] == 0.0


def test_a_row_outside_of_its_draws_is_stale(priors) -> None:
    run = planned_runs("priors", RECIPES["priors"], ["man-nll"], [1])[0]
    late = record(Run(run.table, MAN, 1, {**run.spec, "draw": 2}))
    assert of("priors", [*priors, late]).records.stale == 1


def test_seeds_beyond_the_recipe_are_wanted_too(priors) -> None:
    more = [record(run) for run in planned_runs("priors", RECIPES["priors"], ["man-nll"], [3])[:2]]
    man = of("priors", [*priors, *more]).variants[0].system(MAN.name)
    assert man is not None and (len(man.records), man.wanted, man.is_complete) == (42, 60, False)


def test_systems_that_read_no_text_stand_under_both(priors) -> None:
    texts = of("priors", priors).variants
    assert [variant.target_text for variant in texts] == ["train", "test"]
    majority = [variant.system("shared/majority") for variant in texts]
    assert [m.is_borrowed for m in majority if m] == [False, True]
    assert majority[0] and majority[1] and majority[0].records == majority[1].records
    sped = [variant.system(SPED) for variant in texts]
    assert sped[0] and sped[1] and sped[0].mean("test") != pytest.approx(sped[1].mean("test"))
    only = of("priors", [r for r in priors if r["system"] == "majority"])
    assert [variant.target_text for variant in only.variants] == ["train"]


# --- labels ---------------------------------------------------------------------------------------------

NUMBERS = (0, 5, 10, 20, 50, "all")


def with_labels(right: Callable[[Run], float]) -> list[Record]:
    return [record(run, right(run)) for run in planned_runs("target-labels", RECIPES["target-labels"], (), None)]


@pytest.fixture(scope="module")
def target_labels() -> list[Record]:
    more = {0: 0, 5: 0.04, 10: 0.08, 20: 0.1, 50: 0.14, "all": 0.18}
    return with_labels(lambda run: 0.75 + more[run.spec["target_labels"]])


def accuracies(records: list[Record], **values: object) -> float:
    chosen = [r for r in records if all(r[name] == value for name, value in values.items())]
    return 100 * float(np.mean([np.mean(list(r["test"].values())) for r in chosen]))


def test_the_share_of_the_gap_that_labels_close(target_labels) -> None:
    sped = of("target-labels", target_labels).variants[0].system(SPED)
    assert sped is not None
    found = gap_closed(sped)
    a = {n: accuracies(target_labels, system="SPED", target_labels=n) for n in NUMBERS}
    assert list(found) == [5, 10, 20, 50]
    expected = {n: (a[n] - a[0]) / (a["all"] - a[0]) for n in found}
    assert {n: of.value for n, of in found.items()} == pytest.approx(expected)
    assert expected[5] < expected[50]
    # The bootstrap again, one draw of units at a time.
    units = [(draw, target) for draw in range(1, 11) for target in DOMAINS]
    table = {
        (unit, n): accuracies(target_labels, system="SPED", draw=unit[0], target=unit[1], target_labels=n)
        for unit in units
        for n in (0, 20, "all")
    }
    rng, shares = np.random.default_rng(5), []
    for _ in range(1000):
        drawn = [units[i] for i in rng.integers(len(units), size=len(units))]
        none, some, all_ = (np.mean([table[unit, n] for unit in drawn]) for n in (0, 20, "all"))
        shares.append((some - none) / (all_ - none))
    assert (found[20].low, found[20].high) == pytest.approx(tuple(np.quantile(shares, [0.025, 0.975])), abs=0.02)
    assert found[20].high - found[20].low > 0.04


def test_with_all_labels_our_system_is_compared_with_lr(target_labels) -> None:
    found = of("target-labels", target_labels).variants[0].with_all_labels
    assert found is not None and len(found.cells) == 20 and all(cell.draws == 10 for cell in found.cells)
    a, b = (accuracies(target_labels, system=system, target_labels="all") for system in ("SPED", "LR"))
    assert found.mean("accuracy") == pytest.approx(a - b)
    assert of("few-labels", []).variants == ()


def test_the_error_of_a_prior_is_over_all_classes() -> None:
    shares = {"negative": 0.5, "neutral": 0.3, "positive": 0.2}
    low, high = ({name: share + margin for name, share in shares.items()} for margin in (-0.15, 0.15))
    one = {
        "target": "nyt",
        "classes": list(shares),
        "truth": {"nyt": pack(np.array([0] * 3 + [1] * 5 + [2] * 2))},
        "class_priors": {"nyt": {"source": "estimate", "prior": shares, "low": low, "high": high}},
    }
    found = prior_estimates([one])
    assert found is not None
    assert found.error == pytest.approx(100 * (0.2 + 0.2 + 0) / 3) and found.covered == pytest.approx(100 / 3)


def test_there_is_no_share_of_a_gap_that_is_not_there(target_labels) -> None:
    flat = with_labels(lambda run: 0.8)
    sped = of("target-labels", flat).variants[0].system(SPED)
    assert sped is not None and gap_closed(sped) == {}
    unfinished = [r for r in target_labels if r["target_labels"] != "all"]
    sped = of("target-labels", unfinished).variants[0].system(SPED)
    assert sped is not None and gap_closed(sped) == {}


def test_splits_that_lack_a_number_of_labels_have_no_part_in_the_share(target_labels) -> None:
    lacking = [r for r in target_labels if not (r["draw"] > 4 and r["target_labels"] == 10)]
    sped = of("target-labels", lacking).variants[0].system(SPED)
    rest = of("target-labels", [r for r in target_labels if r["draw"] <= 4]).variants[0].system(SPED)
    assert sped is not None and rest is not None and gap_closed(sped) == gap_closed(rest) != {}
