"""The configuration of `train`, from options or a TOML file, validated as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import tomli_w
from pydantic import Field, field_validator, model_validator
from pydantic.fields import FieldInfo

from multidomain.data.settings import ReadingSettings, SplitSettings
from multidomain.devices import Device
from multidomain.errors import ConfigError
from multidomain.features.settings import SECTIONS
from multidomain.files import whole_file
from multidomain.methods.registry import RECOMMENDED, MethodEntry, method_entry
from multidomain.renamings import config_renamed
from multidomain.saved import read_toml
from multidomain.settings import Settings, listed
from multidomain.training.settings import ObjectiveSettings, RunSettings, TrainingSettings, checked_features

AUTO = "auto"


class AutoSettings(Settings):
    """How a method is chosen."""

    methods: tuple[str, ...] = Field(
        (RECOMMENDED, "lr", "man-nll"),
        min_length=2,
        description="methods that 'auto' compares; the first is never dropped",
    )
    folds: int = Field(3, ge=2, description="folds of the cross-validation of 'auto'")
    budget: float = Field(10, gt=0, description="time budget of 'auto', minutes; slower methods are dropped")

    _as_list = field_validator("methods", mode="before")(listed)

    @field_validator("methods")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            method_entry(name)
            if names.count(name) > 1:
                raise ValueError(f"'{name}' is named twice")
        return names


class TrainConfig(Settings):
    """One training run: the data, the method and the output folder."""

    data: str = Field(description="a corpus by name, or a file or folder")
    output: str = Field(description="folder for model, metrics and log")
    method: str = Field(
        RECOMMENDED, description="see 'multidomain methods', or FILE.py:Class; 'auto' takes the best of several"
    )
    seed: int = Field(0, ge=0, lt=2**32, description="random seed of the split and of training")
    device: Device = Field("auto", description="device to train on")
    threads: int = Field(1, ge=1, description="CPU threads; results are reproducible bit for bit at the same number")
    settings: dict[str, Any] = Field(default_factory=dict)
    reading: ReadingSettings = ReadingSettings()
    split: SplitSettings = SplitSettings()
    features: dict[str, dict[str, Any]] = Field(default_factory=dict)
    training: TrainingSettings = TrainingSettings()
    objective: ObjectiveSettings = ObjectiveSettings()
    auto: AutoSettings = AutoSettings()

    @field_validator("features")
    @classmethod
    def _are_settings_of_featurizers(cls, features: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        return checked_features(features)

    @classmethod
    def parse_all(cls, values: Mapping[str, Any]) -> Self:
        """Build the config, or raise one `ConfigError` that lists every problem, those of the method's settings too."""
        values = config_renamed(values)
        problems = []
        try:
            config = cls.parse(values, "settings")
        except ConfigError as error:
            problems += str(error).splitlines()[1:]
        settings, method = values.get("settings", {}), str(values.get("method", RECOMMENDED))
        try:
            if method != AUTO and isinstance(settings, Mapping):
                method_entry(method, also=(AUTO,)).settings(settings)
        except ConfigError as error:
            lines = str(error).splitlines()
            problems += lines[1:] or [f"  - {lines[0]}"]
        if problems:
            raise ConfigError("Invalid settings:\n" + "\n".join(problems))
        config._refuse_idle()
        if config.method != AUTO:
            config.run.check_compact()
        return config

    @model_validator(mode="after")
    def _one_seed(self) -> Self:
        for part in ("split", "training"):
            if "seed" in getattr(self, part).model_fields_set:
                raise ValueError(f"the seed is given once, before the sections, and not in [{part}]")
        return self

    def idle(self) -> dict[tuple[str, ...], str]:
        """Return the sections that have no effect with what is trained, and why."""
        if self.method == AUTO:
            why = "'auto' compares several methods, each with its defaults"
            return {("settings",): why, ("features", "sequences"): why}
        asks_for = self.run.requirements
        idle: dict[tuple[str, ...], str] = {("auto",): "it is for the method 'auto'"}
        if not asks_for.in_epochs:
            idle[("training",)] = f"'{self.method}' does not learn in epochs"
        if not asks_for.members:
            why = f"'{self.method}' reads {asks_for.featurizer} with these settings"
            idle |= {("features", name): why for name in {*SECTIONS, *self.features} if name != asks_for.featurizer}
        return idle

    def _refuse_idle(self) -> None:
        for path, why in self.idle().items():
            section: Any = self
            for name in path:
                section = section.get(name, {}) if isinstance(section, Mapping) else getattr(section, name)
            given = sorted(section.model_fields_set if isinstance(section, Settings) else section)
            if given:
                name = f"{{settings.{given[0]}=...}}" if path == ("settings",) else f"{{{given[0]}=...}}"
                raise ConfigError(f"'{given[0]}' has no effect: {why}.", f"Leave out {name}.")

    def with_method(self, name: str, features: Mapping[str, Mapping[str, Any]] | None = None) -> Self:
        """Return the config for training the chosen method, without settings that have no effect on it.

        Parameters
        ----------
        features
            Settings of featurizers that it was compared with, besides those of the config.
        """
        compared_with = {"features": features} if features else {}
        given = merged({**self.model_dump(exclude_unset=True), "method": name}, compared_with)
        for outer, *inner in self.model_copy(update={"method": name}).idle():
            if not inner:
                given.pop(outer, None)
            elif outer in given:
                given[outer] = {key: value for key, value in given[outer].items() if key not in inner}
        return self.parse_all(given)

    @property
    def run(self) -> RunSettings:
        """Return what determines the outcome besides data and split; with 'auto', of the first candidate."""
        return RunSettings(
            method=self.auto.methods[0] if self.method == AUTO else self.method,
            method_settings=self.settings,
            features=self.features,
            training=self.training.model_copy(update={"seed": self.seed}),
            objective=self.objective,
        )

    @property
    def split_settings(self) -> SplitSettings:
        """Return how to split the corpus."""
        return self.split.model_copy(update={"seed": self.seed})

    def save(self, path: Path) -> None:
        """Write the given settings, so that ``multidomain train --config`` reproduces the run."""
        given = self.model_dump(mode="json", exclude_unset=True, exclude_none=True)
        typed = method_entry(self.method).settings(self.settings).model_dump(mode="json", exclude_defaults=True)
        given["settings"] = {name: typed[name] for name in self.settings if name in typed}
        given["features"] = {name: values for name, values in given.get("features", {}).items() if values}
        with whole_file(path) as temporary:
            temporary.write_text(tomli_w.dumps({name: v for name, v in given.items() if v != {}}), encoding="utf-8")


@dataclass(frozen=True)
class Option:
    """A setting of `TrainConfig`, from which command-line options and templates are derived.

    Attributes
    ----------
    path
        Its sections and its name.
    """

    path: tuple[str, ...]
    field: FieldInfo

    @property
    def name(self) -> str:
        """Return the name."""
        return self.path[-1]

    @property
    def default(self) -> Any:
        """Return the default."""
        return None if self.field.is_required() else self.field.get_default(call_default_factory=True)


def train_options() -> list[Option]:
    """Return every setting of `TrainConfig`, except those of methods."""
    options = []
    for name, field in TrainConfig.model_fields.items():
        if name == "features":
            for section, settings in SECTIONS.items():
                options += [Option((name, section, inner), f) for inner, f in settings.model_fields.items()]
        elif isinstance(field.default, Settings):  # the seed is given once, for all
            inner_fields = type(field.default).model_fields
            options += [Option((name, inner), f) for inner, f in inner_fields.items() if inner != "seed"]
        elif name != "settings":
            options.append(Option((name,), field))
    return options


def read_config(path: Path) -> dict[str, Any]:
    """Read a TOML file of settings."""
    if not path.exists():
        raise ConfigError(f"There is no file '{path}'.", f"'multidomain init {path}' writes one.")
    return config_renamed(read_toml(path))


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two sets of values section by section; those from above override."""
    both = {**below, **above}
    for name in below.keys() & above.keys():
        if isinstance(below[name], Mapping) and isinstance(above[name], Mapping):
            both[name] = merged(below[name], above[name])
    return both


def nested(values: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    """Nest values by section, as in TOML."""
    sections: dict[str, Any] = {}
    for path, value in values.items():
        place = sections
        for section in path[:-1]:
            place = place.setdefault(section, {})
        place[path[-1]] = value
    return sections


def template(data: str, output: str, method: str) -> str:
    """Return a commented TOML file for training a method on some data, with all defaults."""
    lines = [
        "# multidomain train --config FILE",
        "# Paths are relative to the folder that the command is run in.",
        "# A '#' before a line shows a default; remove it to change the value.",
        "",
    ]
    given = {"data": data, "output": output, "method": method}
    idle = TrainConfig(data=data, output=output, method=method).idle()
    section: tuple[str, ...] = ()
    method_lines = [] if method == AUTO else list(_method_lines(method_entry(method)))
    for option in train_options():
        *outer, name = option.path
        if any(option.path[: len(path)] == path for path in idle):
            continue
        if tuple(outer) != section:
            lines += [*method_lines, "", f"[{'.'.join(outer)}]"]
            section, method_lines = tuple(outer), []
        value = given.get(name) if not outer else None
        lines.append(_line(name, option.default if value is None else value, option.field, is_given=value is not None))
    return "\n".join([*lines, *method_lines]) + "\n"


def _method_lines(entry: MethodEntry) -> Iterator[str]:
    yield from ("", f"[settings] # of '{entry.name}'")
    settings = entry.settings({})
    for name in entry.open_settings:
        yield _line(name, getattr(settings, name), type(settings).model_fields[name], is_given=False)


def _line(name: str, value: Any, field: FieldInfo, *, is_given: bool) -> str:
    """Return a line of TOML, which has no word for None."""
    about = f"  # {field.description}" if field.description else ""
    return f"{'' if is_given else '# '}{name} ={'' if value is None else ' ' + _inline(value)}{about}"


def _inline(value: Any) -> str:
    """Return a value as TOML has it on one line; inner settings show what differs from their defaults."""
    if isinstance(value, Settings):
        value = value.model_dump(mode="json", exclude_defaults=True)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name} = {_inline(inner)}' for name, inner in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_inline, value))}]"
    return json.dumps(value)
