"""Settings from options and TOML files: together, checked as a whole, and kept."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from multidomain.errors import ConfigError
from multidomain.methods.registry import METHODS
from multidomain.runs.config import TrainConfig, merged, read_config, template, train_options
from multidomain.training.settings import RunSettings

Run = Callable[..., tuple[int, str, str]]

GIVEN = {"data": "demo", "output": "runs/x"}


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_options_go_before_the_file():
    file = {"method": "man-l2", "settings": {"lam": 0.1, "k": 2}, "training": {"max_epochs": 3}}
    options = {"settings": {"lam": "0.2"}, "training": {"patience": 1}}
    both = TrainConfig.parse_all(merged({**GIVEN, **file}, options))
    assert both.method == "man-l2"
    assert both.settings == {"lam": "0.2", "k": 2}
    assert (both.run.training.max_epochs, both.run.training.patience) == (3, 1)


def test_every_fault_is_told_at_once():
    values = {
        "settings": {"lam": -1, "lamda": 2},
        "training": {"max_epochs": 0},
        "reading": {"colum": "x"},
        "threads": 0,
        "output": "x",
    }
    with pytest.raises(ConfigError) as error:
        TrainConfig.parse_all(values)
    lines = str(error.value).splitlines()
    assert lines[0] == "Invalid settings:"
    assert len(lines) == 7
    for part in ("'data' is missing", "'lam'", "'lamda' is not a setting", "'training.max_epochs'", "'threads'"):
        assert part in str(error.value)
    assert "'reading.colum' is not a setting. Did you mean" in str(error.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"method": "man-nl"}, "There is no method 'man-nl'. Did you mean 'man-nll'"),
        (
            {"features": {"sequences": {"max_length": 9}}},
            r"'max_length' has no effect: 'sped' reads ngrams with these settings\. Leave out max_length=\.\.\.\.$",
        ),
        (
            {"method": "man-nll", "settings": {"extractor": "cnn"}, "features": {"ngrams": {"max_features": 9}}},
            "'max_features' has no effect: 'man-nll' reads sequences",
        ),
        ({"training": {"max_epochs": 3}}, "'max_epochs' has no effect: 'sped' does not learn in epochs"),
        ({"training": {"seed": 1}}, "given once, before the sections, and not in \\[training\\]"),
        ({"split": {"seed": 1}}, "not in \\[split\\]"),
    ],
)
def test_what_does_not_go_together(values: dict[str, object], message: str):
    with pytest.raises(ConfigError, match=message):
        TrainConfig.parse_all({**GIVEN, **values})


def test_one_seed_decides_split_and_training():
    config = TrainConfig.parse_all({**GIVEN, "seed": 7})
    assert config.run.training.seed == config.split_settings.seed == 7


@pytest.mark.parametrize("method", METHODS)
def test_a_template_trains_with_the_defaults(method: str):
    text = template("demo", "runs/x", method)
    assert TrainConfig.parse_all(tomllib.loads(text)).run == TrainConfig.parse_all({**GIVEN, "method": method}).run


def resolved(run: RunSettings) -> dict[str, object]:
    """All settings of a run; those of features too, of which an ensemble's record holds what was given."""
    return {**run.complete(), "features": [run.of_featurizer(name) for name in ("ngrams", "sequences")]}


@pytest.mark.parametrize("method", ["man-nll", "fa-lr", "ensemble"])
def test_the_lines_of_a_template_are_settings_at_their_defaults(method: str):
    lines = template("demo", "runs/x", method).splitlines()[2:]
    words = method == "ensemble"  # whose members may read either
    skipped = {"private_hidden", "kernel_sizes", "filters", "state", "dimension", "tune_vectors"}
    active, section = [], ""
    for line in lines:
        section = line if line.startswith("[") else section
        name, _, value = line.removeprefix("# ").partition(" =")
        idle = (
            name in skipped or (section == "[features.sequences]" and not words) or not value.partition("#")[0].strip()
        )
        active.append("" if line.startswith("# ") and idle else line.removeprefix("# "))
    config = TrainConfig.parse_all(tomllib.loads("\n".join(active)))
    default = TrainConfig.parse_all({**GIVEN, "method": method}).run
    assert resolved(config.run) == resolved(default)
    shown = 0 if method == "fa-lr" else 6  # all but the seed, where there are epochs
    assert len(config.training.model_fields_set) == shown


def test_init_and_train(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("init", "--data", "demo", "-o", "runs/demo", "--method", "fa-lr")
    assert code == 0 and "next: multidomain train --config multidomain.toml --dry-run" in out
    code, _, err = run("init")
    assert code == 2 and "exists already" in err
    code, out, _ = run("train", "--config", "multidomain.toml", "--dry-run")
    assert code == 0 and "dry run: nothing was trained" in out
    assert not Path("runs").exists()
    code, out, _ = run("train", "--config", "multidomain.toml", "--set", "C=1", "--seed", 3)
    assert code == 0, out
    kept = tomllib.loads(Path("runs/demo/train.toml").read_text(encoding="utf-8"))
    assert kept == {"data": "demo", "output": "runs/demo", "method": "fa-lr", "seed": 3, "settings": {"C": 1.0}}
    code, _, _ = run("train", "--config", "runs/demo/train.toml", "-o", "runs/again")
    assert code == 0
    first, second = (json.loads(Path(f"runs/{name}/metrics.json").read_text()) for name in ("demo", "again"))
    assert first["result"]["test"] == second["result"]["test"]


def test_what_it_understood_is_said_before_training(tmp_path: Path, run: Run):
    rows = ["review,stars,shop", *(f"good {i},up,a\nbad {i},down,a\nso so {i},,b" for i in range(30)), "good 0,down,a"]
    data = write(tmp_path / "shops.csv", "\n".join(rows) + "\n")
    columns = ("--label-column", "stars", "--domain-column", "shop")
    code, out, err = run("train", data, "-o", tmp_path / "m", *columns, "--dry-run")
    assert code == 0, err
    assert "columns: text 'review', label 'stars', domain 'shop'" in out
    assert "shops: 91 rows, 2 domains, 2 classes" in out
    assert [cell.strip() for cell in next(line for line in out.splitlines() if "│ a " in line).split("│")[1:-1]] == [
        "a", "61", "61", "31", "30", "1", "1"
    ]  # fmt: skip
    assert "note: 'b' cannot be scored: no test row has a label" in out


def test_a_file_of_earlier_versions_is_read_under_the_present_names(tmp_path: Path):
    """Sections had other names, and so had a setting of 'sped'."""
    old = """
        data = "demo"
        output = "runs/x"
        [settings]
        {settings}
        [features]
        max_features = 99
        ngram_range = [1, 3]
        [choice]
        {choice}
    """
    auto = write(tmp_path / "auto.toml", old.format(settings="", choice='methods = ["lr", "fa-lr"]\nbudget = 2'))
    values = read_config(auto)
    assert values["features"] == {"ngrams": {"max_features": 99, "ngram_range": [1, 3]}}
    assert values["auto"] == {"methods": ["lr", "fa-lr"], "budget": 2}
    assert TrainConfig.parse_all({**values, "method": "auto"}).auto.budget == 2
    sped = read_config(write(tmp_path / "sped.toml", old.format(settings="trust = 0.3", choice="")))
    config = TrainConfig.parse_all({**sped, "method": "sped"})
    assert config.run.complete()["method_settings"]["pseudo_label_weight"] == 0.3
    words = {**GIVEN, "method": "cnn", "words": {"min_count": 3, "max_length": 50}}
    assert TrainConfig.parse_all(words).features == {"sequences": {"min_count": 3, "max_length": 50}}


def test_every_setting_is_an_option_with_a_name_and_a_description_of_its_own():
    """Options of the command line, templates and messages are made of them."""
    options = train_options()
    names = [option.name for option in options]
    assert len(set(names)) == len(names)
    assert [option.path for option in options if not option.field.description] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, "There is no file '.*'. 'multidomain init .*' writes one."), ("method = man", "is not TOML: .*line 1")],
)
def test_files_that_cannot_be_read(text: str | None, message: str, tmp_path: Path, run: Run):
    path = tmp_path / "x.toml"
    if text is not None:
        write(path, text)
    code, _, err = run("train", "--config", path)
    assert code == 2 and "Traceback" not in err
    assert re.search(message, err)


def test_smoke_is_short_and_says_so(tmp_path: Path, run: Run):
    code, _, err = run("train", "demo", "-o", tmp_path / "m", "--smoke", "--method", "mlp", "--set", "hidden=8")
    assert code == 0
    assert "smoke: one epoch on 320 rows; scores are meaningless" in err
    assert len((tmp_path / "m" / "log.jsonl").read_text().splitlines()) == 1
