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
from multidomain.experiments.recipes import STUDIES, TABLES, Recipe, Row, load_recipe, rows_of
from multidomain.experiments.runner import planned_runs
from multidomain.experiments.shifted_priors import SHIFTED
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
    assert any(row.method == method for _, row in ROWS) or rows_of(method)


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
    message = r"^There is no table 'tabel1'\. Did you mean 'table1'\? Valid: 'table1', 'table2', 'table3', "
    studies = r"'priors', 'priors-fdu', 'three-classes', 'target-labels', 'few-labels'\. "
    with pytest.raises(ConfigError, match=message + studies + r"Or give the TOML file of a recipe of yours\.$"):
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


# --- studies of domains without labels ----------------------------------------------------------------

STUDY_RECIPES = {study: load_recipe(study) for study in STUDIES}
STUDY_ROWS = [(study, row) for study, recipe in STUDY_RECIPES.items() for row in recipe.rows]
each_study = pytest.mark.parametrize("study", STUDIES)


@pytest.mark.parametrize(("study", "row"), STUDY_ROWS, ids=[f"{study}-{row.name}" for study, row in STUDY_ROWS])
def test_rows_of_studies_are_valid(study: str, row: Row) -> None:
    config = row.run_settings(1).complete()
    assert config["method"] == row.method
    assert {name: config["method_settings"][name] for name in row.settings} == row.settings
    assert config["method_settings"].get("category", row.category) == row.category
    assert row.is_random == (row.extractor == "mlp")
    assert STUDY_RECIPES[study].split_specs(row)


@each_study
def test_studies_have_a_protocol_and_unique_names(study: str) -> None:
    recipe = STUDY_RECIPES[study]
    assert recipe.experiment is SHIFTED[recipe.protocol] and recipe.title and recipe.published is None
    found = [row.name.lower() for row in recipe.rows]
    assert len(found) == len(set(found))
    assert {"shared/lr", "shared-private/sped"} <= set(found)


def test_rows_of_a_method_stand_in_tables_and_studies() -> None:
    assert rows_of("majority") == [f"{study} shared/majority" for study in ("priors", "priors-fdu", "three-classes")]
    assert rows_of("sped")[:2] == ["table1 shared-private/SPED", "table2 shared-private/SPED"]
    assert "few-labels shared-private/SPED" in rows_of("sped")


@pytest.mark.parametrize(
    ("study", "all_runs", "few", "restricted"),
    [
        ("priors", 3 * 2 * 20, "FA-LR", 2 * 20),
        ("priors", 3 * 2 * 20, "MAN-NLL-SP-MLP", 20),
        ("priors-fdu", 3 * 20, "MAN-NLL-SP-MLP", 20),
        ("target-labels", 10 * 6 * 20, "LR", 3 * 6 * 20),
        ("few-labels", 3 * 5, "MAN-NLL-SP-MLP", 5),
    ],
)
def test_only_restricts_the_runs_of_a_row(study: str, all_runs: int, few: str, restricted: int) -> None:
    recipe = STUDY_RECIPES[study]
    by_name = {row.system: recipe.split_specs(row) for row in recipe.rows}
    only = next(row.only for row in recipe.rows if row.system == few)
    assert len(by_name["SPED"]) == all_runs and len(by_name[few]) == restricted
    assert by_name[few] == [spec for spec in by_name["SPED"] if all(spec[key] in kept for key, kept in only.items())]
    assert len(planned_runs(study, recipe, [few], [1])) == restricted


def test_systems_that_read_no_text_are_run_with_one_kind() -> None:
    by_name = {row.system: STUDY_RECIPES["priors"].split_specs(row) for row in STUDY_RECIPES["priors"].rows}
    for system, runs in (("majority", 60), ("MLP", 20)):
        assert len(by_name[system]) == runs and {spec["target_text"] for spec in by_name[system]} == {"train"}


@pytest.mark.parametrize("only", [{"draw": [9]}, {"drow": [1]}, {"draw": [1], "target_text": ["dev"]}])
def test_only_that_leaves_no_run_is_refused(only: dict[str, list[object]]) -> None:
    recipe = STUDY_RECIPES["few-labels"]
    row = recipe.rows[0].model_copy(update={"only": only})
    with pytest.raises(ConfigError, match=r"^Row 'shared-private/SPED' has no run: no split has \{'dr.*'labels': 5"):
        recipe.split_specs(row)


@each_study
def test_a_study_cannot_be_re_split(command, study: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"draws its rows itself.*cannot be re-split\. Leave out the split seed\."):
        planned_runs(study, STUDY_RECIPES[study].on_split(1), (), None)
    code, out, err = command(study, "--split-seed", 1, "--results", tmp_path / "results")
    assert (code, out) == (2, "") and "error: This experiment draws its rows itself" in err
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("table", [*TABLES, *STUDIES])
def test_the_command_says_how_to_report(command, monkeypatch, table: str, tmp_path: Path) -> None:
    monkeypatch.setattr(runner, "reproduce", MagicMock(return_value=1))
    code, out, _ = command(table, "--results", tmp_path)
    assert code == 0 and f"\nnext: multidomain report {tmp_path} -o results.md\n" in out


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
    asked = {name: called.call_args.kwargs[name] for name in ("seeds", "only")}
    assert asked == {"seeds": seeds, "only": ["LS", "sp"]}
    assert called.call_args.kwargs["engine"].workers == 2


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
        (["table1", "--jobs", "0"], "Invalid value for '--workers' / '--jobs'"),
        (["table1", "--engine", "dusk"], "error: There is no engine 'dusk'. Did you mean 'dask'"),
        (["table1", "--address", "127.0.0.1:1"], "error: The engine 'local' has no address."),
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
