"""What is searched: as declared beside a setting, or as the user says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from multidomain.errors import ConfigError
from multidomain.methods.registry import installed_methods
from multidomain.runs.config import TrainConfig
from multidomain.tuning.space import all_combinations, combinations, configured, search_space


def config_of(method: str, **values: Any) -> TrainConfig:
    return TrainConfig.parse_all({"data": "demo", "output": "x", "method": method, **values})


def found(config: TrainConfig, *given: str) -> dict[str, Any]:
    return {one.name: (one.low, one.high, one.log, one.choices, one.default) for one in search_space(config, given)}


def faults(config: TrainConfig, *given: str) -> list[str]:
    with pytest.raises(ConfigError, match=r"^Invalid search:\n") as error:
        search_space(config, given)
    return [line.removeprefix("  - ") for line in str(error.value).splitlines()[1:]]


def test_declared_ranges_are_the_default_except_for_what_is_set() -> None:
    expected = {
        "dropout": (0.0, 0.7, False, (), 0.4),
        "lam": (0.001, 1.0, True, (), 0.05),
        "lr": (1e-5, 1e-2, True, (), 1e-4),
    }
    assert found(config_of("man-nll")) == expected
    del expected["lam"]
    assert found(config_of("man-nll", settings={"lam": 0.1})) == expected
    assert found(config_of("sp")) == expected  # its weight of the adversary is unused


def test_settings_of_method_training_and_features() -> None:
    config = config_of("man-nll", settings={"lr": 0.5})
    asked = ["lr", "k=1..10:log", "batch_size=8,32", "hidden=100,50|200", "ngram_range=1,1|1,2", "balanced=no,yes"]
    assert found(config, *asked) == {
        "lr": (1e-5, 1e-2, True, (), None),  # the value that is set is not among them
        "k": (1, 10, True, (), 5),
        "batch_size": (0, 0, False, (8, 32), 8),
        "hidden": (0, 0, False, ("100,50", "200"), None),
        "ngram_range": (0, 0, False, ("1,1", "1,2"), "1,2"),
        "balanced": (0, 0, False, (False, True), False),
    }
    changed = configured(config, {"lr": 0.2, "batch_size": 32, "hidden": "200", "ngram_range": "1,2", "balanced": True})
    assert (changed.settings["lr"], changed.training.batch_size, changed.training.balanced) == (0.2, 32, True)
    assert changed.run.entry.settings(changed.settings).hidden == (200,)  # type: ignore[attr-defined]
    assert changed.features["ngrams"]["ngram_range"] == (1, 2)


def test_everything_that_is_wrong_is_said_at_once() -> None:
    asked = [
        "lr=0..1",
        "drpout=0..1",
        "k=1..2.5",
        "lam=1..0",
        "lam=0..1:log",
        "norm=1..2",
        "dropout=0.1..1",
        "seed=1,2",
    ]
    said = faults(config_of("man-nll"), *asked, "k", "k=2", "k=2,2", "batch_size", "lr=1..2:lin", "max_words=10..20")
    starts = [
        "'lr': input should be greater than 0, got '0'.",
        "'drpout': it is not a setting of 'man-nll' or its training. Did you mean 'dropout'? Valid: ",
        "'k': input should be a valid integer",
        "'lam': expected a range from low to high, got '1..0'.",
        "'lam': a range with :log begins above 0, got '0..1:log'.",
        "'norm': input should be 'all-domains', ",
        "'dropout': input should be less than 1, got '1'.",
        "'seed': it is not a setting",
        "'k': it declares no range; give one, k=LOW..HIGH or k=A,B,C.",
        "'k': expected at least two choices, each once, got '2'.",
        "'k': expected at least two choices, each once, got '2,2'.",
        "'batch_size': it declares no range; give one, batch_size=LOW..HIGH or batch_size=A,B,C.",
        "'lr': expected LOW..HIGH or LOW..HIGH:log, got '1..2:lin'.",
        "'max_words': it is not a setting",  # of this extractor
    ]
    assert len(said) == len(starts)
    for line, start in zip(said, starts, strict=True):
        assert line.startswith(start), line
    assert faults(config_of("man-nll"), "lr", "lr=1..2") == ["'lr': it is named twice."]
    assert faults(config_of("fa-lr"), "patience=1,2")[0].startswith("'patience': it is not a setting of 'fa-lr'")
    assert faults(config_of("man-nll"), "balanced=no..yes") == [
        "'balanced': it is not a number and has no range; give choices, balanced=A,B,C."
    ]


def test_a_method_without_ranges_says_how_to_give_some() -> None:
    with pytest.raises(ConfigError, match=r"no setting of 'fa-lr' .* declares a range. Name settings, .*Valid: 'C'"):
        search_space(config_of("fa-lr"), [])


@pytest.mark.parametrize("method", [entry.name for entry in installed_methods()])
def test_declared_ranges_are_valid(method: str) -> None:
    config = config_of(method)
    try:
        space = search_space(config, [])
    except ConfigError as error:
        assert "There is nothing to search" in str(error)
        return
    for one in space:
        assert one.default is not None, "a range that is declared holds the default"
        for end in (one.low, one.high):
            configured(config, {one.name: end})


@pytest.mark.parametrize(
    ("given", "count"), [(["k=1..3"], 4), (["k=4..6", "norm=none,per-domain"], 7), (["k=4..6", "balanced=no,yes"], 6)]
)
def test_combinations_are_counted_with_the_one_that_is_not_searched(given: Sequence[str], count: int) -> None:
    space = search_space(config_of("man-nll"), given)
    assert combinations(space) == count
    both = list(all_combinations(space))
    assert len({str(one) for one in both}) == len(both) == count - any(one.default is None for one in space)
    assert combinations(search_space(config_of("man-nll"), [*given, "lr"])) == float("inf")
