"""Methods by name, and the faults of their settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from multidomain.errors import ConfigError
from multidomain.methods.adversarial.man import MAN, MANSettings
from multidomain.methods.base import Requirements
from multidomain.methods.linear.plain import Linear
from multidomain.methods.registry import METHODS, RECOMMENDED, absolute, installed_methods, method_entry, register
from multidomain.methods.sped.method import SPED
from multidomain.methods.task import Task

TASK = Task(6, 2, ("a", "b"), (0, 1))


def test_names_are_the_paper_s_rows():
    assert {"man-nll", "man-l2", "sp", "mlp"} <= set(METHODS)
    assert all(name == entry.name and name == name.lower() for name, entry in METHODS.items())


@pytest.mark.parametrize(
    ("name", "given", "category", "adversary"),
    [
        ("man-nll", {}, "shared-private", "nll"),
        ("man-l2", {}, "shared-private", "l2"),
        ("man-nll", {"category": "shared"}, "shared", "nll"),
        ("sp", {}, "shared-private", None),
        ("mlp", {}, "shared", None),
        ("mlp", {"category": "domain-specific"}, "domain-specific", None),
    ],
)
def test_what_a_name_stands_for(name: str, given: dict, category: str, adversary: str | None):
    entry = method_entry(name)
    settings = entry.settings(given)
    assert isinstance(settings, MANSettings)
    assert (settings.category, settings.adversary) == (category, adversary)
    method = entry.build(TASK, entry.settings({**given, "hidden": (4,)}))
    assert isinstance(method, MAN)
    assert (method.D is None) == (adversary is None)


def test_an_unknown_name_brings_the_near_and_the_valid_ones():
    with pytest.raises(
        ConfigError,
        match=r"There is no method 'man-nl'\. Did you mean 'man-nll'\? Valid: 'asp-mtl', .* and \d+ more\.$",
    ):
        method_entry("man-nl")


def test_what_may_be_given_in_place_of_a_name_is_among_the_valid_ones():
    with pytest.raises(ConfigError, match=r"There is no method 'xyz'\. Valid: 'auto', 'asp-mtl', "):
        method_entry("xyz", also=("auto",))


def test_a_name_that_is_far_from_all_brings_the_valid_ones_only():
    with pytest.raises(ConfigError, match=r"There is no method 'xyz'\. Valid: "):
        method_entry("xyz")


@pytest.mark.parametrize(
    ("method", "values", "barred"),
    [
        ("man-nll", {"adversary": "l2"}, "'adversary'"),
        ("sp", {"category": "shared"}, "'category'"),
        ("sp", {"lam": 0.1, "k": 3, "warm_up": True}, "'lam', 'k', 'warm_up'"),
        ("mlp", {"hidden": (4,), "adversary": None, "lam": 0.1}, "'adversary', 'lam'"),
    ],
)
def test_settings_that_make_the_method_or_have_no_effect_are_refused(method: str, values: dict, barred: str):
    with pytest.raises(ConfigError) as caught:
        method_entry(method).settings(values)
    for name in barred.split(", "):
        assert caught.match(rf"{name} (has no effect in|makes) '{method}'")


def test_a_mistyped_setting_brings_the_near_one():
    with pytest.raises(ConfigError, match=r"'hiden' is not a setting\. Did you mean 'hidden'\?"):
        method_entry("man-nll").settings({"hiden": (4,)})


def test_every_fault_is_reported_at_once():
    with pytest.raises(ConfigError) as caught:
        method_entry("man-nll").settings({"lam": -1, "k": 0, "dropout": 1, "norm": "batch", "hiden": (4,)})
    text = str(caught.value)
    assert text.startswith("Invalid settings of method 'man-nll':\n")
    assert text.count("\n") == 5
    for fault in (r"'lam': .* got -1\.", r"'k': .* got 0\.", r"'dropout': .* got 1\.", r"'norm': .*'batch'"):
        assert caught.match(fault)
    assert caught.match("'hiden' is not a setting")


def test_refused_settings_are_reported_together_with_the_other_faults():
    with pytest.raises(ConfigError) as caught:
        method_entry("sp").settings({"lam": 0.1, "dropout": 1, "hiden": (4,)})
    for fault in ("'lam'", r"'dropout': .* got 1\.", "'hiden' is not a setting"):
        assert caught.match(fault)


def test_a_refused_setting_is_not_what_was_meant():
    with pytest.raises(ConfigError) as caught:
        method_entry("sp").settings({"lamb": 0.1})
    assert caught.match("'lamb' is not a setting")
    assert "'lam'" not in str(caught.value)


def test_domain_specific_features_cannot_have_an_adversary():
    with pytest.raises(ConfigError, match="a domain-specific model has no shared features for an adversary") as caught:
        method_entry("man-nll").settings({"category": "domain-specific"})
    assert "Value error" not in str(caught.value) and "value error" not in str(caught.value)


@pytest.mark.parametrize("hidden", [(0,), (-3, 4)])
def test_a_layer_has_at_least_one_unit(hidden: tuple[int, ...]):
    with pytest.raises(ConfigError, match=rf"'hidden\.0': .* greater than or equal to 1, got {hidden[0]}\."):
        method_entry("man-nll").settings({"hidden": hidden})


def test_layers_can_be_written_as_on_the_command_line():
    given = method_entry("man-nll").settings({"hidden": "16, 8", "lam": "0.1", "warm_up": "true"})
    assert (given.hidden, given.lam, given.warm_up) == ((16, 8), 0.1, True)


@pytest.mark.parametrize("name", ["lam", "lr"])
@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_numbers_are_finite(name: str, value: float):
    with pytest.raises(ConfigError, match=rf"'{name}': .*got (inf|nan)"):
        method_entry("man-nll").settings({name: value})


def test_settings_left_out_of_the_record_would_be_lost():
    """What a saved model stores of its settings makes the same settings again."""
    for name, entry in METHODS.items():
        settings = entry.settings({})
        stored = settings.model_dump(mode="json")
        assert entry.method.settings_type.parse(stored) == settings, name


def test_methods_are_registered_beside_their_classes():
    for name, entry in METHODS.items():
        assert entry.method.__module__.startswith("multidomain.methods."), name
        source = inspect.getsource(inspect.getmodule(entry.method))
        assert "@register(" in source, name
    assert METHODS[RECOMMENDED].method is SPED
    assert {name for name, entry in METHODS.items() if entry.method is Linear} == {"ls", "svm", "lr"}
    assert METHODS.broken == {}


@pytest.fixture
def own_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten afterwards."""
    monkeypatch.setattr(METHODS, "_entries", {name: METHODS[name] for name in METHODS})


@pytest.mark.usefixtures("own_methods")
def test_one_class_may_have_several_names():
    @register("mine-ls", "least squares", paper="None 2020", fixed={"loss": "ls"})
    @register("mine", "any loss", paper="None 2020", defaults={"C": 2.0}, unused=("category",), vocabulary="for fun")
    class Mine(Linear):
        pass

    ls, mine = method_entry("mine-ls"), method_entry("mine")
    assert ls.method is mine.method is Mine
    assert (mine.summary, mine.paper, mine.vocabulary) == ("any loss", "None 2020", "for fun")
    assert (ls.settings({}).loss, ls.settings({}).C) == ("ls", None)
    assert (mine.settings({}).loss, mine.settings({}).C, mine.settings({"C": 3}).C) == ("lr", 2.0, 3.0)
    assert (ls.open_settings, mine.open_settings) == (["category", "C"], ["loss", "C"])
    assert {"mine", "mine-ls"} <= set(METHODS)
    with pytest.raises(ConfigError, match="'category' has no effect in 'mine'; leave it out"):
        mine.settings({"category": "shared"})


def test_with_all_packages_every_method_is_installed():
    assert [entry.name for entry in installed_methods()] == list(METHODS)
    assert METHODS.missing == {}
    assert METHODS.needed_for("man-nll") is METHODS.needed_for("fa-lx") is None


OWN_METHOD = """
from multidomain.methods.linear.plain import Linear
from multidomain.methods.registry import register


@register("from-a-file", "mine", paper="None 2020")
class Mine(Linear):
    pass


class Other:
    pass
"""


@pytest.mark.usefixtures("own_methods")
def test_a_method_of_a_file(tmp_path: Path):
    path = tmp_path / "my_method.py"
    path.write_text(OWN_METHOD)
    with pytest.raises(ConfigError, match="There is no method 'from-a-file'"):
        method_entry("from-a-file")
    entry = method_entry(f"{path}:Mine")
    assert entry.name == "from-a-file"
    assert issubclass(entry.method, Linear)
    assert method_entry(f"{path}:Mine") is entry is method_entry("from-a-file")
    for name in ("Other", "Missing"):
        with pytest.raises(
            ConfigError, match=rf"my_method\.py registers no method of a class '{name}'\. It registers 'Mine'\."
        ):
            method_entry(f"{path}:{name}")


def test_a_file_without_methods(tmp_path: Path):
    (tmp_path / "nothing.py").write_text("class Mine:\n    pass\n")
    with pytest.raises(ConfigError, match=r"no method of a class 'Mine'\. It registers no method\."):
        method_entry(f"{tmp_path / 'nothing.py'}:Mine")
    with pytest.raises(ConfigError, match=r"There is no Python file '.*missing\.py'"):
        method_entry(f"{tmp_path / 'missing.py'}:Mine")


LINEAR: dict[str, Any] = {"features": {"weighting": "tfidf"}, "prunable": True, "linear": True}
NETWORK = {"in_epochs": True, "is_random": True, "shared_features": True, "several_processes": True}


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("lr", {}, Requirements(**LINEAR)),
        ("lr", {"category": "domain-specific"}, Requirements(unseen_domains=False, **LINEAR)),
        ("fa-lr", {}, Requirements(**LINEAR)),
        ("cmsc-lr", {}, Requirements(unlabelled_text=True, **LINEAR)),
        ("msda", {}, Requirements(features={"weighting": "tfidf"}, unlabelled_text=True)),
        ("self-training", {"base": "svm"}, Requirements(unlabelled_text=True, **LINEAR)),
        (
            "self-training",
            {"base": "svm", "base_settings": {"category": "domain-specific"}},
            Requirements(unlabelled_text=True, unseen_domains=False, **LINEAR),
        ),
        (
            "sped",
            {},
            Requirements(
                features={"weighting": "tfidf", "max_features": 500_000, "ngram_range": (1, 3)},
                unlabelled_text=True,
                calibrated=True,
                prunable=True,
                linear=True,
                any_size=True,
            ),
        ),
        ("man-nll", {}, Requirements(devices=(), unlabelled_text=True, private_features=True, **NETWORK)),
        ("man-nll", {"category": "shared"}, Requirements(devices=(), unlabelled_text=True, **NETWORK)),
        ("sp", {}, Requirements(devices=(), private_features=True, **NETWORK)),
        ("mlp", {}, Requirements(devices=(), **NETWORK)),
        (
            "mlp",
            {"category": "domain-specific"},
            Requirements(
                devices=(),
                private_features=True,
                unseen_domains=False,
                **{**NETWORK, "shared_features": False},
            ),
        ),
        ("dann", {}, Requirements(devices=(), unlabelled_text=True, **NETWORK)),
        (
            "man-nll",
            {"extractor": "cnn", "dimension": 50},
            Requirements(
                featurizer="sequences",
                devices=(),
                unlabelled_text=True,
                private_features=True,
                input_dimension=50,
                **NETWORK,
            ),
        ),
        (
            "sp",
            {"extractor": "lstm"},
            Requirements(featurizer="sequences", devices=(), private_features=True, input_dimension=100, **NETWORK),
        ),
    ],
)
def test_what_methods_ask_for(name: str, given: dict[str, Any], expected: Requirements):
    entry = method_entry(name)
    assert entry.requirements(entry.settings(given)) == expected


def test_what_an_ensemble_asks_for_is_what_its_members_do():
    def asked(*members: Any) -> Requirements:
        entry = method_entry("ensemble")
        return entry.requirements(entry.settings({"members": list(members)}))

    mixed = asked("man-nll", "fa-lr")
    assert mixed.featurizer is None and mixed.unlabelled_text
    assert [member.method for member in mixed.members] == ["man-nll", "fa-lr"]
    assert mixed.in_epochs and mixed.is_random and not mixed.shared_features and mixed.unseen_domains
    linear = asked("lr", {"method": "svm", "settings": {"category": "domain-specific"}})
    assert not (linear.in_epochs or linear.is_random or linear.unseen_domains)
    assert asked("man-nll", "dann").shared_features


def test_without_settings_the_defaults_are_asked():
    assert method_entry("cnn").requirements() == method_entry("cnn").requirements(method_entry("cnn").settings({}))


def test_a_setting_of_other_methods_is_named_as_theirs():
    with pytest.raises(ConfigError, match=r"'lam' is a setting of 'asp-mtl', .*, not of 'lr'\."):
        method_entry("lr").settings({"lam": 0.1})


def test_recorded_settings():
    """All values that were written down, fixed ones too; what has come since stands at its default."""
    entry = method_entry("man-l2")
    settings = entry.settings({"lam": 0.1})
    recorded = settings.model_dump(mode="json")
    assert entry.recorded_settings(recorded) == settings
    del recorded["k"], recorded["adversary"]
    assert entry.recorded_settings(recorded) == settings
    with pytest.raises(ConfigError, match=r"Invalid settings of 'man-l2':\n  - 'gone' is not a setting"):
        entry.recorded_settings({**recorded, "gone": 1})


@pytest.mark.parametrize(
    ("promise", "call"),
    [
        ("shared_features", lambda method: method.shared_features(None)),
        ("input_dimension", lambda method: method.use_input_vectors(None)),
        ("members", lambda method: type(method).join([], [], 1, None)),
    ],
)
def test_a_promise_that_a_method_does_not_keep_names_it(promise: str, call: Callable[[Any], Any]):
    entry = METHODS["lr"]
    method = entry.build(Task(3, 2, ("a", "b"), (0, 1)), entry.settings({}))
    with pytest.raises(NotImplementedError, match=rf"^Linear\.requirements promises {promise}, which the class"):
        call(method)


def test_a_method_of_a_file_is_found_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert absolute("own/file.py:Class") == f"{tmp_path / 'own' / 'file.py'}:Class"
    assert absolute(absolute("file.py:Class")) == absolute("file.py:Class")
    assert absolute("man-nll") == "man-nll"
