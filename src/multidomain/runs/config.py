"""All that `train` can be told, from options or a TOML file, checked as a whole."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import tomli_w
from pydantic import Field, model_validator
from pydantic.fields import FieldInfo

from multidomain.runs.auto import AUTO, AutoSettings
from multidomain.data.columns import Columns
from multidomain.data.corpus import Corpus
from multidomain.data.named.registry import load_corpus
from multidomain.data.readers.read import read_corpus
from multidomain.errors import ConfigError
from multidomain.files import whole_file
from multidomain.methods.registry import RECOMMENDED, MethodEntry, method_entry
from multidomain.methods.base import FittedMethod
from multidomain.methods.ensemble import EnsembleSettings, Member
from multidomain.training.train import Device, FeatureSettings, RunSettings, WordSettings
from multidomain.runs.run import SplitSettings
from multidomain.settings import Settings
from multidomain.training.loop import TrainingSettings

CONFIG = "train.toml"

_OPTIONS = {  # of the command line, under their names here
    "extractor": "--extractor",
    "weighting": "--features",
    "ngram_range": "--ngrams",
    "max_features": "--max-features",
    "vectors": "--vectors",
    "max_length": "--max-length",
    "budget": "--budget",
    "batch_size": "--batch-size",
    "max_epochs": "--epochs",
    "patience": "--patience",
    "balanced": "--balanced",
    "checkpoint_seconds": "--checkpoint-seconds",
}


class ReadingSettings(Settings):
    """How to read the data."""

    text_column: str | None = Field(None, description="found by itself if it can be")
    label_column: str | None = Field(None, description="empty cells are unlabelled rows")
    domain_column: str | None = None
    split_column: str | None = Field(None, description="says train, dev, test or unlabelled")
    encoding: str = "utf-8"
    drop_empty: bool = Field(False, description="leave rows without text out")
    dev: str | None = Field(None, description="a file with development rows")
    test: str | None = Field(None, description="a file with test rows")
    text_only: str | None = Field(None, description="a file with further text, not to be learnt from")


class TrainConfig(Settings):
    """One training run: what to read, what to train and where to leave it."""

    data: str = Field(description="a corpus by name, or a file or folder")
    output: str = Field(description="folder for model, metrics and log")
    method: str = Field(RECOMMENDED, description="see 'multidomain methods'; 'auto' compares some and takes the best")
    seed: int = Field(0, ge=0, lt=2**32, description="decides the split and the training")
    device: Device = Field("auto", description="auto, cpu or cuda")
    threads: int = Field(1, ge=1, description="the same number gives the same bits")
    settings: dict[str, Any] = Field(default_factory=dict)
    reading: ReadingSettings = ReadingSettings()
    split: SplitSettings = SplitSettings()
    features: FeatureSettings = FeatureSettings()
    words: WordSettings = WordSettings()
    training: TrainingSettings = TrainingSettings()
    choice: AutoSettings = AutoSettings()

    @classmethod
    def parse_all(cls, values: Mapping[str, Any]) -> Self:
        """Build the config, or raise one `ConfigError` that lists every fault, those of the method's settings too."""
        faults = []
        try:
            config = cls.parse(values, "settings")
        except ConfigError as error:
            faults += str(error).splitlines()[1:]
        settings, method = values.get("settings", {}), str(values.get("method", RECOMMENDED))
        try:
            if method != AUTO and isinstance(settings, Mapping):
                method_entry(method, also=[AUTO]).settings(settings)
        except ConfigError as error:
            listed = str(error).splitlines()
            faults += listed[1:] or [f"  - {listed[0]}"]
        if faults:
            raise ConfigError("Invalid settings:\n" + "\n".join(faults))
        config._refuse_idle()
        return config

    @model_validator(mode="after")
    def _one_seed(self) -> Self:
        for part in ("split", "training"):
            if "seed" in getattr(self, part).model_fields_set:
                raise ValueError(f"the seed is given once, before the sections, and not in [{part}]")
        return self

    def _idle(self) -> dict[str, str]:
        """Return the sections that have no effect with what is trained, and why."""
        if self.method == AUTO:
            return dict.fromkeys(("settings", "words"), "'auto' tries several methods, each as it is by default")
        idle = {"choice": "it is for --method auto"}
        entry = method_entry(self.method)
        method = entry.settings(self.settings)
        if isinstance(method, EnsembleSettings):  # members may read either
            return idle
        if issubclass(entry.method, FittedMethod):
            idle["training"] = f"'{self.method}' is fitted at once, without epochs"
        if getattr(method, "reads_words", False):
            return {**idle, "features": f"'{self.method}' reads words in their order here"}
        return {**idle, "words": "it is for extractors that read words in their order, such as cnn"}

    def _refuse_idle(self) -> None:
        for section, why in self._idle().items():
            values = getattr(self, section)
            given = sorted(values.model_fields_set if isinstance(values, Settings) else values)
            if given:
                option = _OPTIONS.get(given[0], f"--set {given[0]}" if section == "settings" else given[0])
                raise ConfigError(f"{option} has no effect: {why}. Leave it out.")

    def with_method(self, name: str) -> Self:
        """Return the config of the run that trains a method which was chosen, without what has no effect on it."""
        given = {**self.model_dump(exclude_unset=True), "method": name}
        idle = self.model_copy(update={"method": name})._idle()
        return self.parse_all({section: value for section, value in given.items() if section not in idle})

    @property
    def run(self) -> RunSettings:
        """Return what decides the outcome, but for the data and the split; with 'auto', of the first candidate."""
        return RunSettings(
            method=self.choice.methods[0] if self.method == AUTO else self.method,
            method_settings=self.settings,
            features=self.features,
            words=self.words,
            training=self.training.model_copy(update={"seed": self.seed}),
        )

    @property
    def split_settings(self) -> SplitSettings:
        """Return how to cut the corpus."""
        return self.split.model_copy(update={"seed": self.seed})

    def load(self) -> Corpus:
        """Read the data and the files that were given for its other parts."""
        r = self.reading
        columns = Columns(r.text_column, r.label_column, r.domain_column, r.split_column)
        options: dict[str, Any] = {"encoding": r.encoding, "drop_empty": r.drop_empty}
        files = {part: path for part, path in (("dev", r.dev), ("test", r.test), ("unlabelled", r.text_only)) if path}
        if not files:
            return load_corpus(self.data, columns, **options)
        pieces = [load_corpus(self.data, columns, part="train", **options)]
        pieces += [read_corpus(path, columns, part=part, **options) for part, path in files.items()]
        return Corpus.concat(pieces)

    def save(self, folder: Path) -> None:
        """Write what was given, so that the run can be repeated by ``multidomain train --config``."""
        given = self.model_dump(mode="json", exclude_unset=True, exclude_none=True)
        typed = method_entry(self.method).settings(self.settings).model_dump(mode="json", exclude_defaults=True)
        given["settings"] = {name: typed[name] for name in self.settings if name in typed}
        with whole_file(folder / CONFIG) as temporary:
            temporary.write_text(tomli_w.dumps({name: v for name, v in given.items() if v != {}}), encoding="utf-8")


def read_config(path: Path) -> dict[str, Any]:
    """Read a TOML file of settings."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"There is no file '{path}'. 'multidomain init {path}' writes one.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}.") from None


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of both; where both have one, the one from above, section by section."""
    both = {**below, **above}
    for name in below.keys() & above.keys():
        if isinstance(below[name], Mapping) and isinstance(above[name], Mapping):
            both[name] = merged(below[name], above[name])
    return both


def template(data: str, output: str, method: str) -> str:
    """Return a commented TOML file that trains a method on some data, everything else at its default."""
    lines = [
        "# multidomain train --config FILE",
        "# A '#' before a line shows a default; take it away to change it.",
        "",
    ]
    given = {"data": data, "output": output, "method": method}
    fields = TrainConfig.model_fields
    lines[1:1] = ["# Paths are as seen from the folder that the command is typed in."]
    for name, field in fields.items():
        if not _is_section(name, field):
            lines += _commented(name, field, given.get(name))
    if method != AUTO:
        lines += _method_lines(method_entry(method))
    idle = TrainConfig(data=data, output=output, method=method)._idle()
    for name, field in fields.items():
        if _is_section(name, field) and name not in ("settings", *idle):
            lines += ["", f"[{name}]", *_section_lines(field)]
    return "\n".join(lines) + "\n"


def _is_section(name: str, field: FieldInfo) -> bool:
    return name == "settings" or isinstance(field.default, Settings)


def _method_lines(entry: MethodEntry) -> Iterator[str]:
    yield from ("", f"[settings] # of '{entry.name}'")
    settings = entry.settings({})
    for name, field in type(settings).model_fields.items():
        if name not in entry.fixed and name not in entry.unused:
            yield f"# {_assignment(name, getattr(settings, name))}{_about(field)}"


def _section_lines(field: FieldInfo) -> Iterator[str]:
    for name, inner in type(field.default).model_fields.items():
        if name != "seed":
            yield from _commented(name, inner, None)


def _commented(name: str, field: FieldInfo, given: Any) -> list[str]:
    if given is not None:
        return [f"{_assignment(name, given)}{_about(field)}"]
    default = field.get_default(call_default_factory=True)
    return [f"# {_assignment(name, default)}{_about(field)}"]


def _about(field: FieldInfo) -> str:
    return f"  # {field.description}" if field.description else ""


def _assignment(name: str, value: Any) -> str:
    """Return a line of TOML, which has no word for None."""
    if value is None:
        return f"{name} ="
    if isinstance(value, tuple):
        value = [member.method if isinstance(member, Member) else member for member in value]
    return f"{name} = {json.dumps(value)}"  # numbers, strings and lists of them look the same in TOML
