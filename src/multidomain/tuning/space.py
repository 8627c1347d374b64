"""The settings that a study searches: those that declare a range, or those that the user names."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from multidomain.errors import ConfigError, did_you_mean
from multidomain.runs.config import Option, TrainConfig, merged, nested, train_options
from multidomain.settings import Searched

_SECTIONS = ("training", "features")  # whose settings can be searched besides those of the method
_SCALARS = (bool, int, float, str)


@dataclass(frozen=True)
class Dimension:
    """A setting that is searched, in a range or among choices.

    Attributes
    ----------
    spec
        As it is written: ``LOW..HIGH``, ``LOW..HIGH:log`` or ``A,B,C``.
    low, high, log
        The range, in whole numbers if the setting is one; log if its logarithm is searched.
    choices
        The choices in place of a range: numbers, flags and names; text for whatever else.
    default
        The value without a search, if it is among those that are searched.
    """

    name: str
    spec: str
    low: float = 0
    high: float = 0
    log: bool = False
    choices: tuple[Any, ...] = ()
    default: Any = None

    @property
    def values(self) -> Sequence[Any] | None:
        """Return all values that there are; None if they cannot be counted."""
        if self.choices:
            return self.choices
        return range(int(self.low), int(self.high) + 1) if isinstance(self.low, int) else None


def search_space(config: TrainConfig, given: Sequence[str]) -> list[Dimension]:
    """Return what to search, such as ``lr=1e-5..1e-2:log``, ``k=1,2,5`` or the name of a setting that declares a range.

    If nothing is given, it is all settings of the method that declare a range, except those that the config sets.

    Raises
    ------
    ConfigError
        With everything that is wrong.
    """
    known = _searchable(config)
    if not given:
        given = [name for name, one in known.items() if _declared(one) and not _is_set(config, one.path)]
    dimensions: dict[str, Dimension] = {}
    faults = []
    for one in given:
        name, equals, spec = (part.strip() for part in one.partition("="))
        try:
            if name in dimensions:
                raise ConfigError("it is named twice.")
            dimensions[name] = _dimension(config, known, name, spec if equals else None)
        except ConfigError as error:
            faults.append(f"  - '{name}': {error}")
    if faults:
        raise ConfigError("Invalid search:\n" + "\n".join(faults))
    if not dimensions:
        raise ConfigError(
            f"There is nothing to search: no setting of '{config.method}' that is left open declares a range.",
            "Name settings, {search=NAME=LOW..HIGH} or {search=NAME=A,B,C}. " + did_you_mean("", known).strip(),
        )
    return list(dimensions.values())


def configured(config: TrainConfig, values: Mapping[str, Any]) -> TrainConfig:
    """Return a config with the values of some searched settings."""
    known = _searchable(config)
    return _with_values(config, {known[name].path: value for name, value in values.items()})


def combinations(space: Sequence[Dimension]) -> float:
    """Return the number of different trials, infinite if there is a setting of any value."""
    counts = [len(one.values) if one.values is not None else math.inf for one in space]
    return math.prod(counts) + (any(one.default is None for one in space))  # and the one without a search


def all_combinations(space: Sequence[Dimension]) -> Iterator[dict[str, Any]]:
    """Yield all combinations of values that can be counted."""
    names = [one.name for one in space]
    for values in product(*(one.values or () for one in space)):
        yield dict(zip(names, values, strict=True))


def _searchable(config: TrainConfig) -> dict[str, Option]:
    """Return the settings that have an effect on training, by name; a method's own come before others of that name."""
    entry, idle = config.run.entry, config.idle()
    fields = entry.method.settings_type.model_fields
    own = {name: Option(("settings", name), fields[name]) for name in entry.open_settings}
    others = [one for one in train_options() if one.path[0] in _SECTIONS and one.name not in own]
    return own | {one.name: one for one in others if not any(one.path[: len(path)] == path for path in idle)}


def _declared(one: Option) -> str | None:
    return next((data.values for data in one.field.metadata if isinstance(data, Searched)), None)


def _is_set(config: TrainConfig, path: tuple[str, ...]) -> bool:
    given: Any = config.model_dump(exclude_unset=True)
    for part in path:
        if part not in given:
            return False
        given = given[part]
    return True


def _dimension(config: TrainConfig, known: Mapping[str, Option], name: str, spec: str | None) -> Dimension:
    if name not in known:
        raise ConfigError(f"it is not a setting of '{config.method}' or its training.{did_you_mean(name, known)}")
    spec = _declared(known[name]) if spec is None else spec
    if not spec:
        raise ConfigError(f"it declares no range; give one, {name}=LOW..HIGH or {name}=A,B,C.")
    path, default = known[name].path, _value(config, known[name].path)
    low, dots, high = spec.partition("..")
    if dots:
        high, colon, scale = high.partition(":")
        if colon and scale != "log":
            raise ConfigError(f"expected LOW..HIGH or LOW..HIGH:log, got '{spec}'.")
        return _range(name, spec, _typed(config, path, low), _typed(config, path, high), bool(colon), default)
    choices = [part.strip() for part in spec.split("|" if "|" in spec else ",")]
    typed = [_typed(config, path, text) for text in choices]
    if len(typed) < 2 or any(value in typed[:i] for i, value in enumerate(typed)):
        raise ConfigError(f"expected at least two choices, each once, got '{spec}'.")
    kept = tuple(value if isinstance(value, _SCALARS) else text for value, text in zip(typed, choices, strict=True))
    return Dimension(name, spec, choices=kept, default=kept[typed.index(default)] if default in typed else None)


def _range(name: str, spec: str, low: Any, high: Any, log: bool, default: Any) -> Dimension:
    if not _is_number(low) or not _is_number(high):
        raise ConfigError(f"it is not a number and has no range; give choices, {name}=A,B,C.")
    if not low < high:
        raise ConfigError(f"expected a range from low to high, got '{spec}'.")
    if log and low <= 0:
        raise ConfigError(f"a range with :log begins above 0, got '{spec}'.")
    inside = _is_number(default) and low <= default <= high
    return Dimension(name, spec, low, high, log, default=default if inside else None)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _typed(config: TrainConfig, path: tuple[str, ...], text: str) -> Any:
    """Return a value as the setting has it, or say what is wrong with it."""
    try:
        return _value(_with_values(config, {path: text.strip()}), path)
    except ConfigError as error:
        lines = [line.removeprefix("  - ").removeprefix(f"'{path[-1]}': ") for line in str(error).splitlines()]
        raise ConfigError(" ".join(lines[1:] or lines)) from None


def _with_values(config: TrainConfig, values: Mapping[tuple[str, ...], Any]) -> TrainConfig:
    return TrainConfig.parse_all(merged(config.model_dump(exclude_unset=True), nested(values)))


def _value(config: TrainConfig, path: tuple[str, ...]) -> Any:
    section, *inner = path
    if section == "settings":
        return getattr(config.run.entry.settings(config.settings), inner[0])
    if section == "features":
        return getattr(config.run.of_featurizer(inner[0]), inner[1])
    return getattr(config.training, inner[0])
