"""Reports of records on new splits: beside the tables, never in them."""

from __future__ import annotations

from pathlib import Path

import test_results
from test_results import RECIPES, SP, of_table1, record, table1, write

from multidomain.cli.report import _check_records
from multidomain.experiments.records import Record
from multidomain.experiments.runner import planned_runs
from multidomain.report.tables.files import write_report
from multidomain.report.tables.results import load_results

folder, linear = test_results.folder, test_results.linear  # fixtures

RIGHT = {"FA-LR": 19, "SP-MLP": 18, "MAN-NLL-SP-MLP": 16, "MLP": 12}  # of 20
HEADING = "\n## On new splits\n"


def on_split(table: str, seed: int) -> list[Record]:
    """All runs of a table on a new split; one seed of each row."""
    runs = planned_runs(table, RECIPES[table].on_split(seed), (), [1])
    return [record(run, RIGHT[run.row.system] - (run.spec.get("selection") == "oracle")) for run in runs]


def page(folder: Path) -> str:
    write_report(folder, folder.parent / "r.md")
    return (folder.parent / "r.md").read_text(encoding="utf-8")


def lines(section: str) -> list[list[str]]:
    """The cells of a section's tables, without headings."""
    found = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip("*") for cell in cells] for cells in found if cells[0] != "category"]


def test_the_section_is_there_only_with_records_and_changes_no_table(folder: Path) -> None:
    usual = page(folder)
    others = {path.name: path.read_bytes() for path in folder.parent.glob("r_*")}
    assert HEADING not in usual
    (folder / "table1-split4.jsonl").touch()
    assert page(folder) == usual
    write(folder / "table1-split4.jsonl", on_split("table1", 4))
    with_section = page(folder)
    before, section = with_section.split(HEADING)
    assert before == usual.split("\n## Where the figures come from\n")[0]
    assert "\n|  | table1 | table2 | table1, split seed 4 |\n" in section
    assert {path.name: path.read_bytes() for path in folder.parent.glob("r_*")} == others


def test_systems_stand_best_first_beside_the_given_split(folder: Path) -> None:
    write(folder / "table1-split4.jsonl", [r for r in on_split("table1", 4) if r["system"] != "MLP"])
    section = page(folder).split(HEADING)[1].split("\n## ")[0]
    assert "\n### Table 1: Five, split seed 4\n" in section
    found = lines(section)
    assert [cells[1] for cells in found] == ["FA-LR", "SP-MLP", "MAN-NLL-SP-MLP"]
    given = {system.row.system: system for system in load_results(folder).tables[0].variants[0].systems}
    present = sorted((given[cells[1]].average for cells in found), reverse=True)
    for rank, (_, system, seeds, *figures) in enumerate(found, start=1):
        there, right = given[system], RIGHT[system]
        assert seeds == ("–" if system == "FA-LR" else "1 of 3")
        assert figures[:2] == [f"{5 * right:.2f}", f"{there.average:.2f}"]
        assert figures[2:4] == [str(rank), str(present.index(there.average) + 1)]
        assert figures[4:] == [f"{100 * (right - 2) / 18:.2f}", f"{there.clean:.2f}"]
    assert found[0][6] != "1", "the order of these records differs from that of the given split"


def test_each_table_seed_and_variant_has_a_list(folder: Path) -> None:
    for name, records in (("table1-split12", on_split("table1", 12)), ("table1-split3", on_split("table1", 3))):
        write(folder / f"{name}.jsonl", records)
    write(folder / "table2-split3.jsonl", on_split("table2", 3))
    section = page(folder).split(HEADING)[1].split("\n## ")[0]
    headings = [line for line in section.splitlines() if line.startswith("#")]
    assert headings == [
        "### Table 1: Five, split seed 3",
        "### Table 1: Five, split seed 12",
        "### Table 2: None, split seed 3",
        "#### Oracle selection, unlabelled train text",
        "#### Source-dev selection, unlabelled train text",
        "#### Oracle selection, unlabelled test text",
        "#### Source-dev selection, unlabelled test text",
    ]
    of_table2 = lines(section.split("### Table 2")[1])
    assert [cells[3] for cells in of_table2] == ["75.00", "55.00", "80.00", "60.00"] * 2
    tables = load_results(folder).tables
    assert [cells[4] for cells in of_table2[:2]] == [
        f"{s.average:.2f}" for s in reversed(tables[1].variants[0].systems)
    ]


def test_equal_figures_share_a_rank_and_a_system_may_lack_the_given_split(folder: Path) -> None:
    write(folder / "table1.jsonl", [r for r in table1() if r["system"] != "MLP"])
    runs = planned_runs("table1", RECIPES["table1"].on_split(1), (), [1])
    write(folder / "table1-split1.jsonl", [record(run, 17) for run in runs])
    found = {cells[1]: cells for cells in lines(page(folder).split(HEADING)[1].split("\n## ")[0])}
    assert {cells[5] for cells in found.values()} == {"1"}
    assert found["MLP"][4] == found["MLP"][6] == found["MLP"][8] == "–"
    assert sorted(found[name][6] for name in found if name != "MLP") == ["1", "2", "3"]


def test_records_of_a_new_split_are_stale_in_the_file_of_the_table() -> None:
    usual, late = of_table1(table1()), on_split("table1", 4)
    table = of_table1([*table1(), *late])
    assert table.records.stale == len(late) and table.records.superseded == 0
    assert [s.averages for s in table.variants[0].systems] == [s.averages for s in usual.variants[0].systems]


def test_what_is_incomplete_is_named(folder: Path) -> None:
    late = [r for r in on_split("table1", 4) if not (r["system"] == "SP-MLP" and r["fold"] == 4)]
    write(folder / "table1-split4.jsonl", late)
    section = page(folder).split(HEADING)[1]
    assert f"- incomplete: 1 seed dropped: {SP} seed 1 (4 of 5 runs)." in section
    assert [cells[1] for cells in lines(section.split("\n## ")[0])] == ["FA-LR", "MAN-NLL-SP-MLP", "MLP"]


def test_new_splits_alone_can_be_reported(folder: Path, tmp_path: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    write(folder / "table1-split4.jsonl", on_split("table1", 4))
    _check_records(folder, tmp_path / "r.md")
    text = page(folder)
    assert [cells[3] for cells in lines(text.split(HEADING)[1].split("\n## ")[0])] == [
        "95.00",
        "90.00",
        "80.00",
        "60.00",
    ]
    assert "How to read" not in text
