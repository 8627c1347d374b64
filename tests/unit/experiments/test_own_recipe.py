"""A recipe of one's own: a TOML file, with a method in a Python file beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from small_corpora import DOMAINS, put_in_place_of_amazon, small_amazon

from multidomain.data.named.registry import NamedCorpus
from multidomain.errors import ConfigError
from multidomain.experiments import runner
from multidomain.experiments.recipes import load_recipe, table_name
from multidomain.experiments.records import read_records, unpack
from multidomain.experiments.runner import execute, planned_runs

METHOD = '''
from multidomain import register
from multidomain.methods.linear.plain import Linear


@register("own-ls", "least squares under another name", paper="none", fixed={"loss": "ls"})
class OwnLeastSquares(Linear):
    """Least squares."""
'''
RECIPE = """
title = "Mine beside another"
protocol = "five-fold"

[[rows]]
category = "shared"
system = "Mine"
method = "own_method.py:OwnLeastSquares"
extractor = "linear"
settings = { C = 1 }
features = { weighting = "counts", max_features = 15 } # under earlier names

[[rows]]
category = "shared"
system = "LS"
method = "ls"
extractor = "linear"
settings = { C = 1 }
features.ngrams = { weighting = "counts", max_features = 15 }
"""
DRIVER = f"""
import sys
from multidomain.cli.main import main
from multidomain.data.named.registry import CORPORA, NamedCorpus
sys.path.append({str(Path(__file__).parent)!r})
from small_corpora import small_amazon

CORPORA.find("amazon")
CORPORA.add("amazon", NamedCorpus("amazon", "small", "generated", small_amazon))  # in the worker too

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder with the recipe ``mine.toml`` and its method."""
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "own_method.py").write_text(METHOD)
    (folder / "mine.toml").write_text(RECIPE)
    return folder


def test_a_recipe_by_its_path_runs_with_a_method_beside_it(own: Path, tmp_path: Path) -> None:
    """By the command, whose worker is a process of its own, from another folder."""
    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER)
    command = [sys.executable, driver, "reproduce", Path("own") / "mine.toml", "--results", "results"]

    def run() -> str:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    assert "mine: 10 runs recorded in results/mine.jsonl" in run()
    records = read_records(tmp_path / "results" / "mine.jsonl")
    assert {(record["table"], record["method"]) for record in records} == {("mine", "own-ls"), ("mine", "ls")}
    found = {(record["system"], record["fold"]): record for record in records}
    assert found.keys() == {(system, fold) for system in ("Mine", "LS") for fold in range(5)}
    for fold in range(5):
        mine, plain = found["Mine", fold], found["LS", fold]
        assert mine["config"]["method_settings"]["C"] == 1
        assert mine["config"]["features"] == plain["config"]["features"]
        assert mine["config"]["features"]["ngrams"]["max_features"] == 15
        assert set(mine["test"]) == set(DOMAINS)
        for part in ("dev", "test", "clean", "predictions", "truth"):
            assert mine[part] == plain[part]
    tested = [unpack(record["predictions"]["dvd"]) for (system, _), record in found.items() if system == "Mine"]
    assert sum(map(len, tested)) == 50  # each labelled row once
    assert "mine: nothing to run: every run has a record in results/mine.jsonl" in run()
    assert read_records(tmp_path / "results" / "mine.jsonl") == records


def test_a_run_of_such_a_recipe_in_this_process(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_in_place_of_amazon(monkeypatch, NamedCorpus("amazon", "small", "generated", small_amazon))
    runner._corpus.cache_clear()
    try:
        table = str(own / "mine.toml")
        first, *_ = planned_runs(table, load_recipe(table), ["Mine"], None)
        assert str(first) == "mine shared/Mine 0"
        record = execute(first, tmp_path)
        assert np.mean(list(record["test"].values())) > 0.5
    finally:
        runner._corpus.cache_clear()


def test_its_records_go_by_the_name_of_the_file(own: Path) -> None:
    assert table_name(str(own / "mine.toml")) == "mine"
    recipe = load_recipe(str(own / "mine.toml"))
    assert [row.system for row in recipe.rows] == ["Mine", "LS"]
    assert recipe.rows[0].method == f"{own / 'own_method.py'}:OwnLeastSquares"
    assert recipe.published is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title =", r"mine\.toml is not TOML"),
        (RECIPE.replace("five-fold", "five-folds"), "there is no protocol 'five-folds'. Did you mean 'five-fold'"),
        (RECIPE.replace('extractor = "linear"\n', "", 1), r"(?s)Invalid recipe .*mine\.toml.*'rows\.0\.extractor'"),
    ],
)
def test_a_faulty_recipe_is_refused(own: Path, text: str, message: str) -> None:
    (own / "mine.toml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_recipe(str(own / "mine.toml"))


def test_a_class_that_the_file_does_not_register_is_refused(own: Path) -> None:
    (own / "mine.toml").write_text(RECIPE.replace(":OwnLeastSquares", ":Other"))
    with pytest.raises(ConfigError, match=r"registers no method of a class 'Other'\. It registers 'OwnLeastSquares'"):
        load_recipe(str(own / "mine.toml")).rows[0].run_settings(1).complete()
