"""What the documentation says is what the records and the code say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_figures_of_the_speed_page_come_from_the_records():
    spec = importlib.util.spec_from_file_location("speed_tables", ROOT / "benchmarks" / "speed_tables.py")
    assert spec and spec.loader
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    page = tables.PAGE.read_text(encoding="utf-8")
    assert tables.written(page) == page, "run python benchmarks/speed_tables.py"
    assert page.count("| textbook |") == 1
