"""Reports of studies: the page, and the files beside it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import test_results
import test_studies
from study_records import DOMAINS, MAN, PREVALENCES, RECIPES, lines, record, study, write
from test_studies import NUMBERS, PLAIN, SPED, accuracies, of, of_cell, system_records

from multidomain.cli.report import _check_records
from multidomain.errors import ConfigError, DataError
from multidomain.experiments.records import Record
from multidomain.experiments.runner import planned_runs
from multidomain.report.tables import results as results_module
from multidomain.report.tables.files import write_report
from multidomain.report.tables.results import load_results
from multidomain.report.tables.studies import gap_closed
from multidomain.report.tables.study_cells import Comparison, prior_estimates

linear, priors, train = test_results.linear, test_studies.priors, test_studies.train  # fixtures
target_labels = test_studies.target_labels

HEADING = "\n## Domains without labels\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for records of the small recipes."""
    monkeypatch.setattr(results_module, "load_recipe", RECIPES.__getitem__)
    (tmp_path / "results").mkdir()
    return tmp_path / "results"


@pytest.fixture
def page(folder: Path) -> Callable[..., str]:
    """Write records of studies, and return the report of them."""

    def page(**records: list[Record]) -> str:
        for name, of_study in records.items():
            write(folder / f"{name.replace('_', '-')}.jsonl", of_study)
        write_report(folder, folder.parent / "r.md")
        return (folder.parent / "r.md").read_text(encoding="utf-8")

    return page


def test_accuracy_by_number_of_labels(page, target_labels) -> None:
    few = study("few-labels")
    text = page(target_labels=target_labels, few_labels=few)
    table = lines(text, "category | system | draws | 0")
    assert table[""][3:] == [str(n) for n in NUMBERS]
    for system in ("SPED", "LR"):
        shown = [f"{accuracies(target_labels, system=system, target_labels=n):.2f}" for n in NUMBERS]
        assert table[system][2:] == ["10", *shown]
    shares = lines(text, "category | system | 5 | 10 | 20 | 50")["SPED"]
    sped = of("target-labels", target_labels).variants[0].system(SPED)
    assert sped is not None
    of_20 = gap_closed(sped)[20]
    assert shares[4] == f"{100 * of_20.value:.0f} % ({100 * of_20.low:.0f} to {100 * of_20.high:.0f})"
    table = lines(text, "category | system | draws | 5")
    assert table[""][3:] == ["5", "10", "20", "50", "200"]
    for system, draws in (("SPED", "3"), ("LR", "3"), ("MAN-NLL-SP-MLP", "1")):
        shown = [f"{accuracies(few, system=system, labels=n):.2f}" for n in (5, 10, 20, 50, 200)]
        assert table[system][2:] == [draws, *shown]
    assert "Differences to" not in text


def test_the_page_shows_the_figures(page, priors, train) -> None:
    text = page(priors=priors)
    part = text.split(HEADING)[1]
    table = lines(part, "category | system | draws")
    assert table[""][3:11] == ["accuracy", "macro-F1", "calibration error", *(f"{p} %" for p in PREVALENCES)]
    assert table[""][11:] == ["prior error", "in 95 % interval"]
    for found in train.systems:
        means = [found.mean(part) for part in ("test", "macro_f1", "calibration_error")]
        means += [found.mean_at("test", prevalence) for prevalence in PREVALENCES]
        assert table[found.row.system][2:11] == [str(found.draws), *(f"{mean:.2f}" for mean in means)]
    sped = prior_estimates(train.system(SPED).records)
    assert table["SPED"][11:] == [f"{sped.error:.2f}", f"{sped.covered:.0f} %"]
    assert table["LR"][11:] == table[PLAIN.split("/")[1]][11:] == ["–", "–"]

    compared = lines(part, "category | system | cells | accuracy")
    assert set(compared) == {"", "SPED", "SPED without self-training", "majority", "MAN-NLL-SP-MLP"}
    for found in train.against_baseline:
        assert compared[found.first.system][2:] == shown(found, 0.5)
    small = lines(part, "category | system | cells | accuracy", 1)
    assert set(small) == {"", "SPED"} and small["SPED"][2:] == shown(train.self_training, 0.0)

    grid = lines(part, "target | 10 %")
    differences = {c.cell: c.accuracy.value for c in train.against_baseline[0].cells}
    for target in DOMAINS:
        row = [(train.system(SPED).cells("test")[target, p], differences[target, p]) for p in PREVALENCES]
        assert grid[target][1:] == [f"{accuracy:.2f} ({difference:+.2f})" for accuracy, difference in row]
    assert part.count("#### Unlabelled t") == 2 and "\n1. Reads no unlabelled text" in part
    assert "incomplete" not in part and "no run yet" not in part and "—" not in part


def shown(found: Comparison, margin: float) -> list[str]:
    worst = [found.worst(part) for part in ("accuracy", "macro_f1")]
    return [
        "20",
        f"{found.mean('accuracy'):+.2f}",
        f"{worst[0].accuracy.value:+.2f} ({worst[0].cell.target} {worst[0].cell.prevalence} %)",
        f"{found.mean('macro_f1'):+.2f}",
        f"{worst[1].macro_f1.value:+.2f} ({worst[1].cell.target} {worst[1].cell.prevalence} %)",
        str(sum(c.accuracy.high < -margin for c in found.cells)),
        str(sum(c.macro_f1.high < -margin for c in found.cells)),
        str(sum(c.calibration_error > 2 for c in found.cells)),
    ]


def test_the_best_of_the_complete_systems_is_bold(page, priors) -> None:
    text = page(priors=priors)
    assert "| shared-private | SPED | 3 | **" in text
    begun = [r for r in priors if not (r["system"] == "SPED" and r["draw"] == 3 and r["target"] == "dvd")]
    text = page(priors=begun)
    assert lines(text, "category | system | draws")["SPED"][2] == "3 (55 of 60 runs)"
    assert "| shared-private | SPED | 3 (55 of 60 runs) | **" not in text
    assert "| shared-private | SPED without self-training | 3 | **" in text
    assert f"\n- incomplete, with means over the runs so far: {SPED} (55 of 60 runs).\n" in text


def test_cells_where_self_training_is_worse_are_counted_without_a_margin(page) -> None:
    runs = planned_runs("priors", RECIPES["priors"], ["sped"], None)
    poor = [record(run, 0.78) if run.row.system == "SPED" else record(run) for run in runs]
    found = of("priors", poor).variants[0].self_training
    assert len(found.below("macro_f1", 0.0)) > len(found.below("macro_f1", 0.5)) > 0
    assert lines(page(priors=poor), "category | system | cells | accuracy")["SPED"][2:] == shown(found, 0.0)


def test_systems_without_a_run_are_named(page, priors) -> None:
    text = page(priors=[r for r in priors if r["system"] in ("LR", "majority")])
    assert f"\n- no run yet: {SPED}, {PLAIN}, {MAN.name}.\n" in text
    text = page(priors=[r for r in priors if r["system"] != "LR"])
    assert "Differences to" not in text and "| SPED |" in text


def test_cells_without_a_run_are_empty(page, priors) -> None:
    text = page(priors=[r for r in priors if (r["system"], r["target"], r["prevalence"]) != ("SPED", "dvd", 75)])
    row = lines(text, "target | 10 %")["dvd"]
    assert row[4] == "–" and "–" not in row[:4]


def test_csv_has_a_line_for_each_system_and_cell(page, folder, priors, train, target_labels) -> None:
    page(priors=priors, target_labels=target_labels, few_labels=study("few-labels"))
    table = pl.read_csv(folder.parent / "r_priors.csv")
    assert table.height == 2 * 5 * 20
    chosen = (pl.col("target_text") == "train") & (pl.col("target") == "dvd") & (pl.col("prevalence") == 75)
    line = table.row(by_predicate=chosen & (pl.col("system") == "SPED"), named=True)
    found = next(c for c in train.against_baseline[0].cells if c.cell == ("dvd", 75))
    assert line["runs"] == 3
    assert line["accuracy"] == pytest.approx(train.system(SPED).cells("test")["dvd", 75], rel=1e-5)
    assert line["accuracy_difference_high"] == pytest.approx(found.accuracy.high, rel=1e-5)
    assert line["macro_f1_difference_low"] == pytest.approx(found.macro_f1.low, rel=1e-5)
    assert line["calibration_error_difference"] == pytest.approx(found.calibration_error, rel=1e-5)
    prior = prior_estimates(of_cell(system_records(priors, "SPED"), ("dvd", 75)))
    assert line["prior_error"] == pytest.approx(prior.error, rel=1e-5)
    assert table.row(by_predicate=chosen & (pl.col("system") == "LR"), named=True)["accuracy_difference"] is None
    table = pl.read_csv(folder.parent / "r_target-labels.csv", infer_schema_length=None)
    assert table.height == 2 * 20 * 6 and set(table["target_labels"]) == {str(n) for n in NUMBERS}
    table = pl.read_csv(folder.parent / "r_few-labels.csv")
    assert table.height == 3 * 5 and "target" not in table.columns


def test_studies_alone_can_be_reported(page, folder, priors) -> None:
    write(folder / "label_next.jsonl", [{"not": "a study"}])
    text = page(priors=priors)
    _check_records(folder, folder.parent / "r.md")
    assert "How to read the tables" not in text and "\n|  | priors |\n" in text
    assert f"\n| records | {len(priors)} |\n" in text


def test_no_studies_no_part(folder, page) -> None:
    with pytest.raises(DataError, match=r"holds no records, expected some in table1\.jsonl or .*few-labels\.jsonl\. "):
        page()
    with pytest.raises(ConfigError, match=r"nor records \(table1\.jsonl, .*few-labels\.jsonl\)"):
        _check_records(folder, folder.parent / "r.md")


def test_a_study_of_stale_records_only(page, priors) -> None:
    stale = [dict(priors[0], system="of old")]
    with pytest.raises(DataError, match=r"1 record, but no row .* 1 record with other settings or data"):
        page(priors=stale)
    text = page(priors=stale, few_labels=study("few-labels"))
    assert "No record of its present rows yet: resume with `multidomain reproduce priors`." in text
    assert "\n- stale: 1 record dropped, " in text


def test_the_report_is_the_same_each_time(page, folder, priors) -> None:
    first = page(priors=priors)
    files = {path.name: path.read_bytes() for path in folder.parent.glob("r_*")}
    assert page(priors=list(reversed(priors))) == first
    assert {path.name: path.read_bytes() for path in folder.parent.glob("r_*")} == files


def test_the_plot_has_a_line_for_each_main_system(page, folder, priors) -> None:
    pytest.importorskip("matplotlib")
    text = page(priors=priors, few_labels=study("few-labels"))
    assert "](r_priors.svg)" in text and "r_few-labels.svg" not in text
    svg = (folder.parent / "r_priors.svg").read_text(encoding="utf-8")
    legend = ["SPED", "LR", "MAN-NLL-SP-MLP", "majority"]
    assert all(f"<!-- {name} -->" in svg for name in legend) and "<!-- SPED without self-training -->" not in svg
    (folder.parent / "r_priors.svg").unlink()
    text = page(priors=[r for r in priors if r["draw"] == 1 and r["system"] != "MAN-NLL-SP-MLP"])
    assert "r_priors.svg" not in text and not (folder.parent / "r_priors.svg").exists()


def test_without_matplotlib_there_is_no_plot(page, folder, priors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text = page(priors=priors)
    assert "There are no plots: Plots need matplotlib." in text and not list(folder.parent.glob("*.svg"))


def test_tables_are_the_same_beside_studies(folder, page, priors, monkeypatch: pytest.MonkeyPatch) -> None:
    recipes = {**test_results.RECIPES, **RECIPES}
    monkeypatch.setattr(results_module, "load_recipe", recipes.__getitem__)
    write(folder / "table1.jsonl", test_results.table1())
    alone = page()
    assert HEADING not in alone
    both = page(priors=priors)
    end = "\n## Where the figures come from\n"
    assert both.split(HEADING)[0] == alone.split(end)[0]
    assert "\n|  | table1 | priors |\n" in both.split(end)[1]
    assert [found.name for found in load_results(folder).tables] == ["table1"]
