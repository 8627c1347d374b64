"""What the documentation says is what the records and the code say."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from unittest import mock

from multidomain.corpus import default_split, load_corpus
from multidomain.evaluation import evaluate
from multidomain.methods import METHODS, MethodEntry
from multidomain.pipeline import RunSettings, train_model
from multidomain.report.results_files import write_report

ROOT = Path(__file__).parents[2]


def test_the_smallest_method_of_the_contributing_page_learns():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    code, entry = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    names: dict[str, object] = {"MethodEntry": MethodEntry}
    exec(code, names)
    added = eval(entry, names)
    corpus = load_corpus("demo")
    split = default_split(corpus)
    with mock.patch.dict(METHODS, {added.name: added}):
        trained = train_model(corpus, split, RunSettings(method=added.name, training={"max_epochs": 10}))
    assert evaluate(trained.model, corpus, split.test).accuracy > 0.7


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
