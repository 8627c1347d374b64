"""Reports of made-up records, whose figures are worked out here by other means."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import typer
from scipy import stats
from typer.testing import CliRunner

from multidomain.cli.report import report_command
from multidomain.errors import ConfigError, DataError
from multidomain.experiments.recipes import Recipe, Row
from multidomain.experiments.records import Record, pack
from multidomain.experiments.runner import Run, planned_runs
from multidomain.experiments.significance import combined_test, paired_test
from multidomain.methods.base import Method
from multidomain.methods.registry import METHODS, MethodEntry
from multidomain.report.tables import results as results_module
from multidomain.report.tables.files import write_report
from multidomain.report.tables.latex import escaped
from multidomain.report.tables.records import Variant
from multidomain.report.tables.results import aggregate, load_results
from multidomain.report.tables.together import rows_together
from multidomain.report.tables.types import SystemResult, TableResults

DOMAINS = ("books", "dvd", "electronics", "kitchen")
ROWS = 20
SP, MAN = "shared-private/SP-MLP", "shared-private/MAN-NLL-SP-MLP"


class Linear(Method):
    """A method without randomness, of which only the name is needed."""

    settings_type = METHODS["mlp"].method.settings_type


@pytest.fixture(autouse=True)
def linear(monkeypatch: pytest.MonkeyPatch) -> None:
    METHODS.find("mlp")  # what registers by itself comes first
    monkeypatch.setitem(METHODS._entries, "linear", MethodEntry("linear", "", "", Linear))


def row(category: str, system: str, method: str, seeds: int = 3, note: str = "") -> Row:
    return Row(category=category, system=system, method=method, extractor="mlp", seeds=seeds, note=note)


SP_ROW, MAN_ROW = row("shared-private", "SP-MLP", "sp"), row("shared-private", "MAN-NLL-SP-MLP", "man-nll")
FA_ROW = row("shared-private", "FA-LR", "linear", note="100 % tf-idf & counts_1.")
MLP_ROW = row("shared", "MLP", "mlp")
RECIPES = {
    "table1": Recipe(
        title="Five", protocol="five-fold", published="table1_amazon.csv", rows=(MLP_ROW, SP_ROW, MAN_ROW, FA_ROW)
    ),
    "table2": Recipe(
        title="None", protocol="unlabelled-target", published="table2_unlabelled.csv", rows=(MLP_ROW, MAN_ROW)
    ),
}


def record(run: Run, right: dict[str, int] | int, **others: Any) -> Record:
    """A record in which the first so many of each domain's rows are answered correctly."""
    domains = [run.spec["target"]] if "target" in run.spec else DOMAINS
    counts = right if isinstance(right, dict) else dict.fromkeys(domains, right)
    truth = np.arange(ROWS) % 2
    answers = {name: np.where(np.arange(ROWS) < counts[name], truth, 1 - truth) for name in domains}
    return {
        **run.identity(),
        "test": {name: counts[name] / ROWS for name in domains},
        "clean": {name: (counts[name] - 2) / (ROWS - 2) for name in domains},
        "predictions": {name: pack(codes) for name, codes in answers.items()},
        "truth": {name: pack(truth) for name in domains},
        "cpu_seconds": 10.0 + (run.seed or 0),
        "data": {"name": "amazon", "sha256": "d" * 64},
        "code": "c" * 64,
        "machine": dict.fromkeys(("multidomain", "python", "torch", "numpy", "scikit-learn", "cpu"), "1.0"),
        **others,
    }


def runs_of(table: str, wanted: Row, seeds: Sequence[int] | None = None) -> list[Run]:
    return planned_runs(table, RECIPES[table], [wanted.name], seeds)


def table1() -> list[Record]:
    """All runs of Table 1; how many rows are right differs by system, seed, fold and domain."""
    made, rng = [], np.random.default_rng(1)
    for base, of_row in ((13, MLP_ROW), (16, SP_ROW), (16, MAN_ROW), (15, FA_ROW)):
        for run in runs_of("table1", of_row):
            made.append(record(run, {name: base + int(rng.integers(4)) for name in DOMAINS}))
    return made


def table2() -> list[Record]:
    made = []
    for of_row in RECIPES["table2"].rows:
        for run in runs_of("table2", of_row):
            oracle, train = run.spec["selection"] == "oracle", run.spec["target_text"] == "train"
            made.append(record(run, 12 + 3 * oracle + 2 * train + (run.seed or 0) % 3))
    return made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with all records of both tables."""
    monkeypatch.setattr(results_module, "load_recipe", RECIPES.__getitem__)
    source = tmp_path / "results"
    source.mkdir()
    for name, records in (("table1", table1()), ("table2", table2())):
        write(source / f"{name}.jsonl", records)
    yield source


def write(path: Path, records: Sequence[Record]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in records), encoding="utf-8")


def of_table1(records: Sequence[Record]) -> TableResults:
    return aggregate("table1", RECIPES["table1"], records)


def system(table: TableResults, name: str, variant: int = 0) -> SystemResult:
    return next(found for found in table.variants[variant].systems if found.row.name == name)


def test_means_are_over_folds_then_seeds_and_the_error_is_over_seeds():
    records = table1()
    found = system(of_table1(records), SP)
    ours = [r for r in records if r["system"] == "SP-MLP"]
    by_seed = [100 * np.mean([list(r["test"].values()) for r in ours if r["seed"] == seed]) for seed in (1, 2, 3)]
    assert found.seeds == (1, 2, 3)
    assert found.averages == pytest.approx(by_seed)
    assert len(set(by_seed)) > 1
    assert found.average == pytest.approx(np.mean(by_seed))
    assert found.se == pytest.approx(stats.sem(by_seed))
    assert found.domains["dvd"] == pytest.approx(100 * np.mean([r["test"]["dvd"] for r in ours]))
    assert found.clean == pytest.approx(100 * np.mean([list(r["clean"].values()) for r in ours]))
    assert found.clean != pytest.approx(found.average)
    assert found.cpu_seconds == 12.0
    assert found.published is not None and found.published.average == 85.05
    assert found.difference == pytest.approx(found.average - 85.05)


def test_p_is_of_a_t_test_against_the_strongest_competitor():
    table = of_table1(table1())
    assert (table.competitor.system, table.competitor.average) == ("CMSC-SVM", 85.18)
    found = system(table, SP)
    assert found.p_competitor == pytest.approx(stats.ttest_1samp(found.averages, 85.18).pvalue)


def test_a_row_without_randomness_has_no_error_and_no_p():
    found = system(of_table1(table1()), FA_ROW.name)
    assert found.seeds == (None,)
    assert (found.se, found.p_competitor, found.published, found.difference, found.is_within_two_se) == (None,) * 5


def test_within_two_combined_standard_errors():
    def at(shortfall: float, published_se: float | None) -> bool | None:
        averages = (82.0, 83.0, 84.0)  # standard error 1 / sqrt(3)
        published = results_module.Published(None, "MAN", {"a": 1.0}, 83.0 + shortfall, published_se)
        return SystemResult(
            MAN_ROW, (1, 2, 3), {}, averages, 0, 0, published, None, True, False, correct={}
        ).is_within_two_se

    alone, combined = 2 / np.sqrt(3), 2 * np.sqrt(1 / 3 + 0.5**2)
    assert at(alone - 0.01, None) and not at(alone + 0.01, None)
    assert at(alone + 0.01, 0.5) and at(combined - 0.01, 0.5) and not at(combined + 0.01, 0.5)
    assert at(-5, None)


def test_rows_that_fall_short_within_their_errors_are_found_together():
    table = of_table1(table1())
    tests = {one.kind: one for one in rows_together([table])}
    compared = [system(table, name) for name in ("shared/MLP", SP, MAN)]  # all but FA-LR, which the paper has not
    assert tests.keys() == {"all"} and tests["all"].rows == 3  # one MAN row alone is no kind
    errors = np.hypot([s.se for s in compared], [s.published.se or 0 for s in compared])
    rng = np.random.default_rng(0)
    of_chance = rng.normal(0, errors, size=(200_000, 3)).mean(axis=1)
    found = tests["all"].test
    assert found.difference == pytest.approx(np.mean([s.average - s.published.average for s in compared]))
    assert found.standard_error == pytest.approx(of_chance.std(), rel=0.01)

    short = combined_test([-0.3] * 6, [0.2] * 6)
    assert short.p == pytest.approx(np.mean(np.abs(rng.normal(0, 0.2, (400_000, 6)).mean(axis=1)) >= 0.3), abs=2e-4)
    assert short.p < 0.001 < combined_test([-0.3], [0.2]).p
    assert combined_test([0.3, -0.3], [0.2, 0.2]).p == 1


def test_the_last_record_of_a_run_counts():
    records = table1()
    again = record(runs_of("table1", SP_ROW, [1])[0], 0)
    table = of_table1([*records, again])
    assert table.records.superseded == 1
    assert system(table, SP).averages[0] < system(of_table1(records), SP).averages[0] - 10


def with_setting(old: Record, part: str, name: str, value: Any) -> Record:
    return {**old, "config": {**old["config"], part: {**old["config"][part], name: value}}}


@pytest.mark.parametrize(
    "stale",
    [
        lambda old: with_setting(old, "training", "batch_size", 99),
        lambda old: with_setting(old, "method_settings", "a_setting_of_old", 1),
        lambda old: {**old, "system": "SP-CNN"},
        lambda old: {**old, "seed": None},
        lambda old: {**old, "fold": 7},
    ],
    ids=["setting", "setting that is gone", "row", "no seed", "fold"],
)
def test_stale_records_are_without_word(stale: Any):
    records = table1()
    usual = of_table1(records)
    late = [stale(record(run, 0)) for run in runs_of("table1", SP_ROW, [3])]
    table = of_table1([*records, *late])
    assert table.records.stale == 5
    assert system(table, SP).averages == system(usual, SP).averages


def test_whether_a_record_has_a_seed_must_fit_its_row():
    seeded = [record(Run("table1", FA_ROW, 1, run.spec), 0) for run in runs_of("table1", FA_ROW)]
    unseeded = [record(Run("table1", SP_ROW, None, run.spec), 0) for run in runs_of("table1", SP_ROW, [1])]
    table = of_table1([*table1(), *seeded, *unseeded])
    assert table.records.stale == 10
    assert system(table, FA_ROW.name).seeds == (None,) and system(table, SP).seeds == (1, 2, 3)


def test_a_record_from_before_a_setting_existed_counts():
    records = table1()
    for old in records:
        del old["config"]["training"]["balanced"]
    table = of_table1(records)
    assert table.records.stale == 0
    assert len(table.variants[0].systems) == 4


def test_records_of_other_data_than_the_last_are_without_word():
    other = {"name": "amazon", "sha256": "e" * 64}
    late = [record(run, 10, data=other) for run in runs_of("table1", SP_ROW, [1])]
    table = of_table1([*table1(), *late])
    assert [found.row.name for found in table.variants[0].systems] == [SP]
    assert table.source.data == {"amazon": "e" * 64}
    assert table.records.stale == len(table1())


def test_a_seed_that_lacks_a_fold_does_not_count(folder: Path, tmp_path: Path):
    records = [r for r in table1() if not (r["system"] == "SP-MLP" and r["seed"] == 2 and r["fold"] == 4)]
    table = of_table1(records)
    assert system(table, SP).seeds == (1, 3)
    assert table.source.records == len(records) - 4
    write(folder / "table1.jsonl", records)
    write_report(folder, tmp_path / "r.md")
    page = (tmp_path / "r.md").read_text(encoding="utf-8")
    assert f"- incomplete: 1 seed dropped: {SP} seed 2 (4 of 5 runs)." in page
    assert "| 2 of 3 |" in page


def test_paired_tests_are_over_all_rows_with_the_mean_of_seeds():
    records = table1()
    results = of_table1(records).variants[0]

    def correct(name: str) -> dict[str, np.ndarray]:
        """By domain, one value a row: the first so many rows of each fold are right."""
        ours = [r for r in records if r["system"] == name]
        seeds = sorted({r["seed"] for r in ours})
        return {
            d: np.mean(
                [
                    np.concatenate([np.arange(ROWS) < round(ROWS * r["test"][d]) for r in ours if r["seed"] == seed])
                    for seed in seeds
                ],
                axis=0,
            )
            for d in DOMAINS
        }

    asked = {pair.second.system: pair for pair in results.asked}
    assert asked.keys() == {"SP-MLP", "FA-LR"}
    assert asked["SP-MLP"].test == paired_test(correct("MAN-NLL-SP-MLP"), correct("SP-MLP"))
    differences = results.best.average - np.array([s.average for s in results.systems if s is not results.best])
    assert len(results.against_best) == 3
    assert [-100 * pair.test.difference for pair in results.against_best] == pytest.approx(differences)
    smallest = min(results.against_best, key=lambda pair: pair.test.p)
    assert smallest.p_holm == pytest.approx(min(1, 3 * smallest.test.p))


def test_table_2_has_four_variants_and_the_paper_s_comes_first():
    table = aggregate("table2", RECIPES["table2"], table2())
    assert (table.competitor.system, table.competitor.average) == ("MDAN-S-MAX", 82.72)
    assert [results.variant for results in table.variants] == [
        Variant("oracle", "train"),
        Variant("source-dev", "train"),
        Variant("oracle", "test"),
        Variant("source-dev", "test"),
    ]
    assert [results.variant.compares for results in table.variants] == [True, False, False, False]
    averages = [system(table, MAN, variant).average for variant in range(4)]
    assert averages == pytest.approx([100 * (12 + more + 1) / ROWS for more in (5, 2, 3, 0)])
    assert [system(table, MLP_ROW.name, variant).is_borrowed for variant in range(4)] == [False, False, True, True]
    assert system(table, MLP_ROW.name, 2).average == system(table, MLP_ROW.name, 0).average
    assert system(table, MAN).is_authors and not system(table, MLP_ROW.name).is_authors


def cells(page: str, start: str) -> list[str]:
    line = next(line for line in page.splitlines() if line.startswith(start))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_page_shows_the_figures(folder: Path, tmp_path: Path):
    (folder / "remarks.md").write_text("CMSC has no *lexicon* here.\n", encoding="utf-8")
    write_report(folder, tmp_path / "r.md")
    page = (tmp_path / "r.md").read_text(encoding="utf-8")
    table = load_results(folder).tables[0]
    systems = table.variants[0].systems

    headings = cells(page, "| category | system |")
    assert headings[2:7] == [*DOMAINS, "average ± SE"]
    assert headings[7:] == ["published", "difference", "within 2 SE", "p", "seeds", "clean", "CPU s"]
    rows = {s.row.system: cells(page, f"| {s.row.category} | {s.row.system}") for s in systems}
    for column, heading in enumerate(headings[2:7], start=2):
        figures = [s.average if column == 6 else s.domains[heading] for s in systems]
        for found, figure in zip(systems, figures, strict=True):
            text = rows[found.row.system][column]
            assert text.strip("*").split(" ±")[0] == f"{figure:.2f}"
            assert text.startswith("**") == (f"{figure:.2f}" == f"{max(figures):.2f}"), (heading, text)
    assert rows["FA-LR"][7:] == ["–", "–", "–", "–", "–", f"{systems[3].clean:.2f}", "10"]
    assert rows["FA-LR"][1] == "FA-LR<sup>1</sup>" and "\n1. 100 % tf-idf & counts_1.\n" in page
    assert rows["SP-MLP"][8] == f"{systems[1].difference:+.2f}"
    assert systems[0].p_competitor is not None and systems[0].p_competitor < 0.05
    assert rows["MLP"][10].endswith("↓")  # 13 to 16 of 20 are right: far below the competitor
    assert "No complete seed yet: domain-specific/LS," in page
    assert "the mean of the printed row is 80.62" in page
    assert "CMSC-SVM with 85.18 in table1, MDAN-S-MAX with 82.72 in table2" in page
    assert page.count("Reads no unlabelled text, so the same runs") == 2
    assert "## Remarks\n\nCMSC has no *lexicon* here.\n" in page
    assert "| data (SHA-256) | amazon `dddddddddddd` |" in page
    assert "—" not in page


def test_equal_figures_are_all_bold(folder: Path, tmp_path: Path):
    runs = [*runs_of("table1", FA_ROW), *runs_of("table1", SP_ROW, [1])]
    write(folder / "table1.jsonl", [record(run, 17) for run in runs])
    write_report(folder, tmp_path / "r.md")
    page = (tmp_path / "r.md").read_text(encoding="utf-8")
    assert cells(page, "| shared-private | FA-LR")[2:7] == ["**85.00**"] * 5
    assert cells(page, "| shared-private | SP-MLP")[2:7] == ["**85.00**"] * 5


def test_latex_is_escaped(folder: Path, tmp_path: Path):
    write_report(folder, tmp_path / "r.md")
    latex = (tmp_path / "r_table1.tex").read_text(encoding="utf-8")
    assert r"$^{1}$~100 \% tf-idf \& counts\_1." in latex
    assert r"\toprule" in latex and r"\bottomrule" in latex
    assert r"FA-LR$^{1}$" in latex and "±" not in latex and r"$\pm$" in latex and "–" not in latex
    lines = [line for line in latex.splitlines() if line.endswith(r"\\")]
    assert len(lines) == 1 + 4 and {line.replace(r"\&", "").count("&") for line in lines} == {13}
    assert latex.count("{") == latex.count("}")
    assert (tmp_path / "r_table2.tex").read_text(encoding="utf-8").count(r"\begin{table*}") == 4
    assert escaped("a_b^2 \\ {x} <~") == (
        r"a\_b\textasciicircum{}2 \textbackslash{} \{x\} $<$\textasciitilde{}"
    )  # fmt: skip


def test_csv_holds_all_variants_and_the_figures(folder: Path, tmp_path: Path):
    write_report(folder, tmp_path / "r.md")
    first, second = (pl.read_csv(tmp_path / f"r_table{number}.csv") for number in (1, 2))
    found = system(load_results(folder).tables[0], SP)
    line = first.row(by_predicate=pl.col("system") == "SP-MLP", named=True)
    assert line["average"] == pytest.approx(found.average, rel=1e-5)
    assert line["se_average"] == pytest.approx(found.se, rel=1e-5)
    assert (line["published_dvd"], line["published_average"], line["seeds"]) == (84.05, 85.05, 3)
    assert line["within_two_se"] == found.is_within_two_se
    assert first.row(by_predicate=pl.col("system") == "FA-LR", named=True)["published_average"] is None
    assert second.select("selection", "target_text").unique().height == 4 and second.height == 8


def test_a_last_line_that_was_cut_short_does_no_harm(folder: Path):
    usual = load_results(folder)
    path = folder / "table1.jsonl"
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(table1()[0])[:100])
    assert load_results(folder).tables[0].source == usual.tables[0].source


def test_one_table_is_enough(folder: Path, tmp_path: Path):
    (folder / "table2.jsonl").unlink()
    written = write_report(folder, tmp_path / "r.md")
    assert not any("table2" in path.name for path in written.files)
    assert "Table 2" not in (tmp_path / "r.md").read_text(encoding="utf-8")


def test_a_table_without_a_complete_row_says_so(folder: Path, tmp_path: Path):
    write(folder / "table2.jsonl", table2()[:2])
    write_report(folder, tmp_path / "r.md")
    page = (tmp_path / "r.md").read_text(encoding="utf-8")
    assert "No row has all runs of a seed yet: resume with `multidomain reproduce table2`." in page
    assert not (tmp_path / "r_table2.tex").exists()


def test_errors_say_what_to_do(folder: Path, tmp_path: Path):
    with pytest.raises(DataError, match=r"There is no folder .*nowhere\. Run 'multidomain reproduce table1 --results"):
        load_results(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"holds no records, expected some in table1\.jsonl or .*labels\.jsonl\. Run"):
        load_results(tmp_path / "empty")
    (folder / "table2.jsonl").unlink()
    write(folder / "table1.jsonl", [with_setting(table1()[0], "training", "batch_size", 9), *table1()[1:4]])
    with pytest.raises(DataError, match=r"4 records, but no row .* 1 seed incomplete, 1 record with other settings"):
        load_results(folder)
    with pytest.raises(ConfigError, match="A report is a Markdown file"):
        write_report(folder, tmp_path / "report.tex")


def test_a_report_without_matplotlib_says_what_is_missing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    app = typer.Typer()
    app.command()(report_command)
    result = CliRunner().invoke(app, [str(folder), "-o", str(tmp_path / "r.md")], catch_exceptions=False)
    assert result.exit_code == 0
    assert "r_table1.csv" in result.output and ".svg" not in result.output
    page = (tmp_path / "r.md").read_text(encoding="utf-8")
    assert "There are no plots: Plots need matplotlib. Install it with: pip install 'multidomain[plots]'" in page
    assert "![" not in page and not list(tmp_path.glob("*.svg"))


def test_plots_are_the_same_bytes_each_time(folder: Path, tmp_path: Path):
    pytest.importorskip("matplotlib")
    write_report(folder, tmp_path / "r.md")
    svg = tmp_path / "r_table2.svg"
    first = svg.read_bytes()
    write_report(folder, tmp_path / "r.md")
    assert svg.read_bytes() == first
    assert first.startswith(b"<?xml") and b"<dc:date>" not in first
    assert "](r_table2.svg)" in (tmp_path / "r.md").read_text(encoding="utf-8")
