"""The recipes: valid settings, every published row and method; rows and seeds as a command asks for them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from small_corpora import put_in_place_of_amazon

from multidomain.cli import main as cli
from multidomain.errors import ConfigError
from multidomain.experiments import runner
from multidomain.experiments.protocols import PROTOCOLS
from multidomain.experiments.recipes import TABLES, Recipe, Row, load_recipe
from multidomain.experiments.runner import planned_runs
from multidomain.methods.registry import METHODS

RECIPES = {table: load_recipe(table) for table in TABLES}
ROWS = [(table, row) for table, recipe in RECIPES.items() for row in recipe.rows]
each_row = pytest.mark.parametrize(("table", "row"), ROWS, ids=[f"{table}-{row.name}" for table, row in ROWS])
each_table = pytest.mark.parametrize("table", TABLES)
MAN_SHARED_PRIVATE = ("MAN-L2-SP-MLP", "MAN-NLL-SP-MLP")


def names(rows: list[Row]) -> list[str]:
    return [row.name for row in rows]


@each_row
def test_settings_are_valid_and_complete(table: str, row: Row) -> None:
    config = row.run_settings(1).complete()
    assert config["method"] == row.method
    assert config["training"]["seed"] == 1
    if row.run_settings(1).requirements.featurizer == "ngrams":
        assert config["features"]["ngrams"]["weighting"] in ("counts", "tfidf")
    else:
        assert set(config["features"]) == (set() if row.method == "ensemble" else {"sequences"})
    sections = [config["method_settings"], *config["features"].values(), config["training"]]
    for given in (row.settings, *row.features.values(), row.training):
        for name, value in given.items():
            found = [section[name] for section in sections if name in section]
            if name == "members":
                found = [
                    [{key: member[key] for key in ("method", "settings")} for member in members] for members in found
                ]
            assert value in found


@each_row
def test_the_category_is_what_the_method_does(table: str, row: Row) -> None:
    settings = row.run_settings(1).complete()["method_settings"]
    assert settings.get("category", row.category) == row.category
    weighting = METHODS[row.method].requirements().features.get("weighting")
    extractors = {"linear"} if weighting == "tfidf" else {"mlp", "cnn", "lstm", "bilstm"}
    assert row.extractor in extractors or row.method == row.extractor == "msda"
    assert settings.get("extractor", row.extractor) == row.extractor


@each_row
def test_seeds(table: str, row: Row) -> None:
    if row.system in MAN_SHARED_PRIVATE:
        assert row.seeds == 5
    assert row.seeds >= (3 if table != "table3" or row.system.startswith("MAN") else 1)
    assert row.is_random == (row.extractor not in ("linear", "msda"))  # these are convex or in closed form


@each_table
def test_names_are_unique(table: str) -> None:
    found = [row.name.lower() for row in RECIPES[table].rows]
    assert len(found) == len(set(found))


@each_table
def test_the_protocol_is_known(table: str) -> None:
    assert RECIPES[table].experiment is PROTOCOLS[RECIPES[table].protocol]
    assert RECIPES[table].title


@each_table
def test_every_published_row_is_there(table: str) -> None:
    published = RECIPES[table].published_table()
    assert {"books", "dvd", "electronics", "kitchen", "average"} <= set(published.columns)
    key = ["category", "system"] if "category" in published.columns else ["system"]
    ours = {tuple(getattr(row, name) for name in key) for row in RECIPES[table].rows}
    missing = [row for row in published.select(key).iter_rows() if row not in ours]
    assert missing == []
    assert published.height == {"table1": 18, "table2": 7, "table3": 8}[table]


@each_table
def test_rows_without_a_published_figure_say_so(table: str) -> None:
    published = RECIPES[table].published_table()["system"].to_list()
    for row in RECIPES[table].rows:
        assert row.system in published or row.note.startswith(("Not in the paper", "Not in this table of the paper"))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_row(method: str) -> None:
    assert any(row.method == method for _, row in ROWS)


def test_what_users_would_pick_instead_is_in_every_table() -> None:
    for recipe in RECIPES.values():
        assert {"fa-svm", "self-training"} <= {row.method for row in recipe.rows}


def test_rows_that_read_unlabelled_text() -> None:
    """Also those whose tf-idf is fitted on it; of Table 2 only the plain network, which reads counts, is left."""
    assert [row.name for row in RECIPES["table2"].rows if not row.reads_text] == ["shared/MLP"]


# --- rows by name -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("LS", ["domain-specific/LS", "shared/LS"]),
        ("ls", ["domain-specific/LS", "shared/LS"]),
        ("mtlgraph", ["shared-private/MTLGraph"]),
        ("mtl-graph", ["shared-private/MTLGraph"]),  # by its method
        ("MAN-L2", ["shared/MAN-L2-MLP", "shared-private/MAN-L2-SP-MLP"]),
        ("man-l2-sp-mlp", ["shared-private/MAN-L2-SP-MLP"]),
        ("self-training", ["shared/LR + self-training", "shared-private/FA-LR + self-training"]),
        ("LR + Self-Training", ["shared/LR + self-training"]),
        ("shared/MLP", ["shared/MLP"]),
        ("Domain-Specific/mlp", ["domain-specific/MLP"]),
        ("domain-specific", [f"domain-specific/{name}" for name in ("LS", "SVM", "LR", "MLP")]),
        ("DOMAIN-SPECIFIC", [f"domain-specific/{name}" for name in ("LS", "SVM", "LR", "MLP")]),
    ],
)
def test_only(wanted: str, found: list[str]) -> None:
    assert names(RECIPES["table1"].only([wanted])) == found


def test_only_nothing_is_everything() -> None:
    assert names(RECIPES["table1"].only([])) == names(list(RECIPES["table1"].rows))


def test_only_several_keeps_the_order_of_the_table_and_names_each_row_once() -> None:
    found = RECIPES["table1"].only(["sp", "shared/ls", "LS", "SP-MLP"])
    assert names(found) == ["domain-specific/LS", "shared/LS", "shared-private/SP-MLP"]


def test_unknown_row() -> None:
    with pytest.raises(ConfigError, match=r"^There is no row 'SP-MLPP' in this table\. Did you mean 'SP-MLP'\? Valid"):
        RECIPES["table1"].only(["LS", "SP-MLPP"])


def test_unknown_row_lists_what_there_is() -> None:
    with pytest.raises(ConfigError, match=r"^There is no row 'zzz' in this table\. Valid: 'MLP', 'mSDA', 'DANN', "):
        RECIPES["table2"].only(["zzz"])


def test_unknown_table() -> None:
    message = r"^There is no table 'tabel1'\. Did you mean 'table1'\? Valid: 'table1', 'table2', 'table3'\. "
    with pytest.raises(ConfigError, match=message + r"Or give the TOML file of a recipe of yours\.$"):
        load_recipe("tabel1")


def test_planned_runs_have_one_seed_of_all_rows_before_the_next() -> None:
    chosen = ["LS", "shared/MLP", "MAN-L2-SP-MLP"]
    runs = planned_runs("table1", RECIPES["table1"], chosen, None)
    assert [run.spec["fold"] for run in runs] == list(range(5)) * 10
    found = [(run.row.name, run.seed) for run in runs[::5]]
    man = "shared-private/MAN-L2-SP-MLP"
    assert found[:2] == [("domain-specific/LS", None), ("shared/LS", None)]  # without randomness: once
    assert found[2:] == [
        ("shared/MLP", 1),
        (man, 1),
        ("shared/MLP", 2),
        (man, 2),
        ("shared/MLP", 3),
        (man, 3),
        (man, 4),
        (man, 5),
    ]
    assert {run.seed for run in planned_runs("table1", RECIPES["table1"], chosen, [7, 9])} == {None, 7, 9}


# --- the command --------------------------------------------------------------------------------------


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run ``multidomain reproduce table1`` in this process; return exit code, standard output and standard error."""
    put_in_place_of_amazon(monkeypatch, MagicMock())  # no file is needed to find these faults

    def command(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["multidomain", "reproduce", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        output = capsys.readouterr()
        return int(exit_.value.code or 0), output.out, output.err

    return command


@pytest.mark.parametrize(("text", "seeds"), [("1-3", [1, 2, 3]), ("1,3", [1, 3]), ("4,1-2,2", [4, 1, 2]), ("0", [0])])
def test_seeds_are_parsed(command, monkeypatch, tmp_path: Path, text: str, seeds: list[int]) -> None:
    called = MagicMock(return_value=1)
    monkeypatch.setattr(runner, "reproduce", called)
    options = ["--only", "LS", "--only", "sp", "--jobs", 2, "--results", tmp_path]
    code, out, _ = command("table1", "--seeds", text, *options)
    assert code == 0 and out.startswith("table1: 1 run recorded in ")
    assert called.call_args.args == ("table1", tmp_path)
    asked = {name: called.call_args.kwargs[name] for name in ("seeds", "only", "jobs")}
    assert asked == {"seeds": seeds, "only": ["LS", "sp"], "jobs": 2}


def test_a_split_seed_is_passed_on_and_names_the_file(command, monkeypatch, tmp_path: Path) -> None:
    called = MagicMock(return_value=2)
    monkeypatch.setattr(runner, "reproduce", called)
    code, out, _ = command("table2", "--split-seed", 0, "--results", tmp_path)
    assert code == 0 and out.startswith(f"table2: 2 runs recorded in {tmp_path / 'table2-split0.jsonl'}\n")
    assert called.call_args.kwargs["split_seed"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table1", "--seeds", "one"], "error: --seeds is 'one'; expected numbers such as 1-5 or 1,3,7."),
        (["table1", "--seeds", "5-1"], "error: --seeds is '5-1'; expected numbers such as 1-5 or 1,3,7."),
        (["table1", "--seeds", "1,,2"], "error: --seeds is '1,,2'; expected numbers such as 1-5 or 1,3,7."),
        (
            ["table1", "--only", "MLPP"],
            "error: There is no row 'MLPP' in this table. Did you mean 'MLP'? Valid: 'LS', ",
        ),
        (["table9"], "error: There is no table 'table9'. Did you mean 'table"),
        (["table1", "--jobs", "0"], "Invalid value for '--jobs'"),
        (["table1", "--split-seed", "-1"], "Invalid value for '--split-seed'"),
        (["table1", "--split-seed", "1-3"], "Invalid value for '--split-seed'"),
    ],
)
def test_faults_of_the_user(command, tmp_path: Path, arguments: list[str], message: str) -> None:
    code, out, err = command(*arguments, "--results", tmp_path / "results")
    assert (code, out) == (2, "")
    assert message in err and "Traceback" not in err
    assert not (tmp_path / "results").exists()


# --- a recipe with a fault ----------------------------------------------------------------------------


def recipe_with(**of_row: object) -> Recipe:
    row = {"category": "shared", "system": "X", "method": "lr", "extractor": "linear", **of_row}
    return Recipe.parse({"title": "", "protocol": "five-fold", "published": "", "rows": [row]}, "recipe of x")


def test_a_row_without_seeds_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Invalid recipe of x:\n  - 'rows\.0\.seeds': .*1, got 0\."):
        recipe_with(seeds=0)


def test_a_fault_in_the_settings_of_a_row_names_the_row() -> None:
    (row,) = recipe_with(training={"max_epoch": 3}).rows
    with pytest.raises(ConfigError, match=r"Invalid settings of row 'shared/X':\n  - 'training\.max_epoch' is not"):
        row.run_settings(1)


def test_an_unknown_method_is_refused() -> None:
    (row,) = recipe_with(method="lrr").rows
    with pytest.raises(ConfigError, match=r"There is no method 'lrr'\. Did you mean 'lr'"):
        row.run_settings(1).complete()
