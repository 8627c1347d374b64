"""Methods by name, and the faults of their settings."""

from __future__ import annotations

import pytest

from multidomain.errors import ConfigError
from multidomain.methods.adversarial.man import MAN, MANSettings
from multidomain.methods.base import Task
from multidomain.methods.registry import METHODS, method_entry

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
        ConfigError, match=r"There is no method 'man-nl'\. Did you mean 'man-nll'\? Valid: .*'man-l2'.*'sp'"
    ):
        method_entry("man-nl")


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
