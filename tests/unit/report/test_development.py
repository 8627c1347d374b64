"""The script that choices are made with: what it trains and measures on, and the table of what was tried."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from multidomain.data.corpus import Corpus
from multidomain.data.named.registry import load_corpus
from multidomain.data.splits import kfold_split
from multidomain.report.tables.development import FILE, development_section
from multidomain.training.settings import RunSettings

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "development.py"


@pytest.fixture(scope="module")
def development() -> ModuleType:
    spec = importlib.util.spec_from_file_location("development", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def amazon(benchmark_data: Path) -> Corpus:
    return load_corpus("amazon")


@pytest.mark.benchmark_data
def test_folds_leave_the_test_fold_of_run_0_out(development: ModuleType, amazon: Corpus):
    cuts = development.cuts(amazon, "folds")
    test = kfold_split(amazon, 0).test
    measured = np.concatenate([rows for _, _, rows in cuts])
    assert len(cuts) == 4 and len(measured) == len(np.unique(measured)) == 6400
    for _, split, rows in cuts:
        assert not np.isin(test, np.concatenate([split.train, split.dev, split.unlabelled])).any()
        assert not np.isin(rows, split.train).any()
        assert len(split.train) == 4800


@pytest.mark.benchmark_data
def test_pseudo_targets_never_read_the_target_nor_any_test_file(development: ModuleType, amazon: Corpus):
    cuts = development.cuts(amazon, "pseudo-targets")
    assert len({(place["pseudo_target"], place["without"]) for place, _, _ in cuts}) == len(cuts) == 12
    for place, split, rows in cuts:
        read = np.concatenate([split.train, split.dev, split.unlabelled])
        assert place["without"] not in amazon.domains[read]
        assert set(amazon.parts[read]) == {"train"}
        assert set(amazon.domains[rows]) == {place["pseudo_target"]}
        assert place["pseudo_target"] not in amazon.domains[np.concatenate([split.train, split.dev])]


@pytest.mark.benchmark_data
def test_a_target_is_measured_on_the_sources_development_rows(development: ModuleType, amazon: Corpus):
    [(place, split, rows)] = development.cuts(amazon, "books")
    assert place["selection"] == "source-dev"
    assert np.array_equal(rows, split.dev) and "books" not in amazon.domains[rows]


def test_settings_that_are_gone_are_shown_as_they_were(tmp_path: Path):
    config = RunSettings.parse({"method": "lr", "method_settings": {"C": 2.0}}, "").complete()
    old = {**config, "method_settings": {**config["method_settings"], "a_setting_of_old": True}}
    records = [{"config": c, "dev": {"books": 0.8}, "place": {"dev_fold": 0}} for c in (config, old)]
    (tmp_path / FILE).write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    rows = development_section(tmp_path).splitlines()[2:]
    assert [row.split(" | ")[1].split(", features")[0] for row in rows] == [
        "C = 2.0",
        "C = 2.0, a_setting_of_old = True",
    ]
