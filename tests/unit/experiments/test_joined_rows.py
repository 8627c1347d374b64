"""A row of a table that joins the models of others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from small_corpora import put_in_place_of_amazon

from multidomain.data.corpus import Corpus
from multidomain.data.named.registry import NamedCorpus
from multidomain.experiments import runner
from multidomain.experiments.recipes import Recipe, Row, load_recipe
from multidomain.experiments.records import unpack
from multidomain.experiments.runner import Run, _waves, execute, planned_runs

TRAINING = {"max_epochs": 2}
SETTINGS = {"hidden": [6], "shared_size": 4}


def recipe(table: str = "table1") -> Recipe:
    def row(system: str, method: str, settings: dict[str, Any]) -> dict[str, Any]:
        about = {"category": "shared-private", "system": system, "method": method, "extractor": "mlp"}
        return {**about, "settings": settings, "training": TRAINING, "seeds": 2}

    members = [{"method": name, "settings": SETTINGS} for name in ("sp", "man-l2")]
    rows = [
        row("both", "ensemble", {"members": members}),
        row("SP", "sp", SETTINGS),
        row("MAN-L2", "man-l2", SETTINGS),
        row("other", "sp", {"hidden": [7]}),
    ]
    return Recipe.parse({"title": "tiny", "protocol": "five-fold", "published": "", "rows": rows})


def small_corpus() -> Corpus:
    random = np.random.default_rng(0)
    y, domains = np.tile(["a", "b"], 60), np.repeat(["books", "dvd", "pans"], 40)
    x = random.poisson(0.3 + (np.arange(10) % 2 == (y == "a")[:, None]))
    return Corpus(sp.csr_matrix(x), y, domains, folds=np.arange(120) // 2 % 5, name="amazon")


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    put_in_place_of_amazon(monkeypatch, NamedCorpus("amazon", "small", "generated", small_corpus))
    monkeypatch.setattr(runner, "load_recipe", recipe)
    runner._corpus.cache_clear()
    yield
    runner._corpus.cache_clear()


def run_of(system: str, **spec: int) -> Run:
    return Run("table1", recipe().only([system])[0], 1, {"fold": 0, **spec})


def test_members_are_the_rows_of_the_same_settings():
    table = recipe()
    both = table.rows[0]
    assert [row.system for row in table.members_of(both)] == ["SP", "MAN-L2"]
    assert table.members_of(table.rows[1]) == []


def test_the_ensemble_of_table_3_joins_its_two_rows():
    table = load_recipe("table3")
    ensembles: list[Row] = [row for row in table.rows if row.method == "ensemble"]
    assert [[row.system for row in table.members_of(row)] for row in ensembles] == [["MAN-L2-SP-CNN", "MAN-NLL-SP-CNN"]]


def test_rows_that_join_others_come_after_them():
    waves = _waves(planned_runs("table1", recipe(), (), None), recipe())
    assert [{run.row.system for run in wave} for wave in waves] == [{"SP", "MAN-L2", "other"}, {"both"}]


def test_models_that_are_at_hand_are_joined_and_others_are_trained(tiny: None, tmp_path: Path):
    alone = execute(run_of("both"), tmp_path / "a")
    for system in ("SP", "MAN-L2", "other"):
        execute(run_of(system), tmp_path / "b")
    assert len(list((tmp_path / "b").iterdir())) == 2, "the models that the ensemble waits for"
    joined = execute(run_of("both"), tmp_path / "b")
    assert joined["chosen"] == {} and set(alone["chosen"]) == {"1 sp", "2 man-l2"}
    for domain, packed in alone["predictions"].items():
        np.testing.assert_array_equal(unpack(joined["predictions"][domain]), unpack(packed))
    assert joined["config"] == alone["config"]
    assert list((tmp_path / "b").iterdir()) == list((tmp_path / "a").glob("*")) == []


def test_models_of_the_same_new_split_are_joined_and_no_others(tiny: None, tmp_path: Path):
    for system in ("SP", "MAN-L2"):
        execute(run_of(system, split_seed=1), tmp_path)
    assert set(execute(run_of("both"), tmp_path)["chosen"]) == {"1 sp", "2 man-l2"}
    assert set(execute(run_of("both", split_seed=2), tmp_path)["chosen"]) == {"1 sp", "2 man-l2"}
    assert execute(run_of("both", split_seed=1), tmp_path)["chosen"] == {}
    assert list(tmp_path.iterdir()) == []


def test_models_of_other_code_are_not_joined(tiny: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for system in ("SP", "MAN-L2"):
        execute(run_of(system), tmp_path)
    monkeypatch.setattr(runner, "code_hash", lambda: "another code")
    assert set(execute(run_of("both"), tmp_path)["chosen"]) == {"1 sp", "2 man-l2"}
