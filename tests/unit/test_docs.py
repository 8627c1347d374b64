"""What the documentation says is what the records and the code say."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from multidomain.experiments.records import read_records
from multidomain.report.tables.files import write_report

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("speed.md", "\n| textbook | "),
        ("reliability.md", "\n| `sped` | "),
        ("label-next.md", "\n| difference | 0.00 ± 0.00 | "),
        ("scale.md", "\n| `local` | 2, one killed | "),
        ("tune.md", "tune"),
        ("encoders.md", "\n| 32 | `lora` | none | "),
    ],
)
def test_figures_of_a_page_come_from_the_records(name: str, holds: str):
    spec = importlib.util.spec_from_file_location("page_tables", ROOT / "benchmarks" / "page_tables.py")
    assert spec and spec.loader
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    page = ROOT / "docs" / name
    text = page.read_text(encoding="utf-8")
    assert tables.written(page) == text, "run python benchmarks/page_tables.py"
    assert holds in text


def test_results_are_what_the_records_say(tmp_path: Path):
    write_report(ROOT / "results", tmp_path / "results.md")
    made = (tmp_path / "results.md").read_text(encoding="utf-8")
    written = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert written == made, "run: multidomain report results -o docs/results.md"


@pytest.mark.parametrize(("table", "peer"), [("table1", "FA-SVM"), ("table2", "mSDA"), ("table3", "FA-SVM")])
def test_figures_of_the_readme_come_from_the_records(table: str, peer: str):
    def mean(system: str) -> str:
        found = [r for r in read_records(ROOT / "results" / f"{table}.jsonl") if r["system"] == system]
        if table == "table1":
            found = [r for r in found if r["category"] == "shared-private"]
        if table == "table2":
            found = [r for r in found if (r["selection"], r["target_text"]) == ("source-dev", "test")]
        return f"{np.mean([100 * accuracy for r in found for accuracy in r['test'].values()]):.2f}"

    row = re.search(rf"^\| {table.replace('table', 'Table ')}: .*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert row and row[0].endswith(f"| {peer} {mean(peer)} | **{mean('SPED')}** |")


@pytest.mark.parametrize(("script", "page"), [("make_command_line", "command-line.md"), ("make_api", "api.md")])
def test_a_generated_page_is_what_the_code_says(script: str, page: str):
    made = subprocess.run(
        [sys.executable, "-c", f"import {script}; print({script}.written(), end='')"],
        cwd=ROOT / "docs",
        capture_output=True,
        text=True,
        check=True,
    )
    written = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert made.stdout == written, f"run: python docs/{script}.py"
