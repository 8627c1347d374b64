"""What the documentation says is what the records and the code say."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

from multidomain.report.results_files import write_report

ROOT = Path(__file__).parents[2]


def test_figures_of_the_speed_page_come_from_the_records():
    spec = importlib.util.spec_from_file_location("speed_tables", ROOT / "benchmarks" / "speed_tables.py")
    assert spec and spec.loader
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    page = tables.PAGE.read_text(encoding="utf-8")
    assert tables.written(page) == page, "run python benchmarks/speed_tables.py"
    assert "\n| textbook | " in page


def test_results_are_what_the_records_say(tmp_path: Path):
    write_report(ROOT / "results", tmp_path / "results.md")
    made = (tmp_path / "results.md").read_text(encoding="utf-8")
    written = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert written == made, "run: multidomain report results -o docs/results.md"


def test_the_command_line_page_is_what_the_commands_say():
    made = subprocess.run(
        [sys.executable, "-c", "import make_command_line; print(make_command_line.written(), end='')"],
        cwd=ROOT / "docs",
        capture_output=True,
        text=True,
        check=True,
    )
    written = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    assert made.stdout == written, "run: python docs/make_command_line.py"
