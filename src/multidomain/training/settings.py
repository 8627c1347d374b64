"""Everything that determines the outcome of a training run besides data and split."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from pydantic import Field, field_validator

from multidomain.errors import ConfigError, quoted
from multidomain.methods.registry import RECOMMENDED, MethodEntry, method_entry
from multidomain.metrics import Metric
from multidomain.renamings import config_renamed
from multidomain.settings import Settings, listed

if TYPE_CHECKING:
    from multidomain.features.base import Featurizer
    from multidomain.methods.base import Requirements

ClassWeight: TypeAlias = Literal["balanced"] | dict[str, float] | None


class TrainingSettings(Settings):
    """How to train; the defaults are the paper's, where it gives them."""

    batch_size: int = Field(8, ge=2, description="rows of each domain in a mini-batch")
    max_epochs: int = Field(30, ge=1, description="maximum number of epochs")
    patience: int = Field(5, ge=1, description="stop after this many epochs without a better dev score")
    balanced: bool = Field(False, description="sample the classes of a domain equally often")
    seed: int = Field(0, ge=0, lt=2**32, description="random seed")
    clip_norm: float | None = Field(
        None, gt=0, description="scale the gradient of a step down to at most this norm; by default never"
    )
    recover: int = Field(
        0,
        ge=0,
        description="if training diverges, go back to the best epoch and halve the learning rate, at most this many "
        "times",
    )
    checkpoint_seconds: float = Field(120, ge=0, description="minimum seconds between checkpoints")


class ObjectiveSettings(Settings):
    """What a model is to be good at, whatever the method."""

    metric: Metric = Field(
        "accuracy",
        description="dev score that selects epochs, hyperparameters and, with 'auto', the method: accuracy or "
        "macro-f1, the mean over domains, or the accuracy in the worst domain",
    )
    class_weight: ClassWeight = Field(
        None,
        description="class weights in training: balanced, inversely proportional to class frequencies, or a weight for "
        "each class; 1 where none is given",
    )
    compact: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="smaller model: drop the n-grams and weights without which at most this share of the dev "
        "predictions changes, such as 0.01; by default none is dropped",
    )

    @field_validator("class_weight", mode="plain")
    @classmethod
    def _positive(cls, value: Any) -> ClassWeight:
        """Check class weights, which may be written ``spam=5,ham=1``."""
        expected = "expected balanced, or CLASS=WEIGHT,... with finite weights above 0"
        if value is None or value == "balanced":
            return value
        try:
            if isinstance(value, str):
                value = dict(part.rsplit("=", 1) for part in listed(value))
            weights = {str(name).strip(): float(weight) for name, weight in value.items()}
        except (AttributeError, TypeError, ValueError):
            raise ValueError(expected) from None
        if not weights or not all(0 < weight < math.inf for weight in weights.values()):
            raise ValueError(expected)
        return weights


class RunSettings(Settings):
    """Everything that determines the outcome of a run besides data and split.

    Attributes
    ----------
    method, method_settings
        Name of the method, and what differs from its defaults.
    features
        What differs from the defaults of featurizers, by their names.

    Examples
    --------
    >>> settings = RunSettings(method="lr", features={"ngrams": {"max_features": 100}})
    >>> settings.complete()["features"]
    {'ngrams': {'weighting': 'tfidf', 'max_features': 100, 'ngram_range': [1, 2], 'min_df': 1}}
    """

    method: str = RECOMMENDED
    method_settings: dict[str, Any] = Field(default_factory=dict)
    features: dict[str, dict[str, Any]] = Field(default_factory=dict)
    training: TrainingSettings = TrainingSettings()
    objective: ObjectiveSettings = ObjectiveSettings()

    @field_validator("features")
    @classmethod
    def _are_settings_of_featurizers(cls, features: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        return checked_features(features)

    @property
    def entry(self) -> MethodEntry:
        """Return the method behind the name."""
        return method_entry(self.method)

    @property
    def requirements(self) -> Requirements:
        """Return what the method asks for with its settings."""
        return self.entry.requirements(self.entry.settings(self.method_settings))

    def check_compact(self) -> None:
        """Refuse to make a model compact whose method cannot do with fewer columns."""
        if self.objective.compact is not None and not self.requirements.prunable:
            raise ConfigError(
                f"'{self.method}' cannot be made compact: it cannot do without some of its n-grams.",
                f"Leave out {{compact=...}}, or use a linear method, such as {{method={RECOMMENDED}}}.",
            )

    def of_featurizer(self, name: str) -> Settings:
        """Return all settings of a featurizer, with the defaults of the method and of the featurizer filled in."""
        from multidomain.features.base import FEATURIZERS

        asks_for, featurizer = self.requirements, FEATURIZERS.find(name)
        asked = asks_for.features if asks_for.featurizer == name else {}
        given = {key: value for key, value in self.features.get(name, {}).items() if value is not None}
        fixed = {key: value for key, value in asked.items() if key in featurizer.of_method}
        values = {**featurizer.defaults, **asked, **given, **fixed}
        return featurizer.settings_type.parse(values, f"settings of '{name}'")

    def featurizer(self) -> Featurizer | None:
        """Return the featurizer that the method reads, which is not fitted; None if its members have their own."""
        from multidomain.features.base import FEATURIZERS

        name = self.requirements.featurizer
        return None if name is None else FEATURIZERS.find(name).from_settings(self.of_featurizer(name))

    def complete(self) -> dict[str, Any]:
        """Return all settings that determine the outcome, defaults included, as JSON-compatible values."""
        training = self.training.model_dump(mode="json")
        del training["checkpoint_seconds"]  # has no influence on the outcome
        read = self.requirements.featurizer
        return {
            "method": self.entry.name,
            "method_settings": self.entry.settings(self.method_settings).model_dump(mode="json"),
            "features": self.model_dump(mode="json")["features"]
            if read is None
            else {read: self.of_featurizer(read).model_dump(mode="json")},
            "training": training,
            "objective": self.objective.model_dump(mode="json"),
        }

    @classmethod
    def from_record(cls, complete: Mapping[str, Any]) -> Self:
        """Return the settings from the output of `complete`, also under earlier names; new ones get their defaults.

        Raises
        ------
        ConfigError
            A method or a setting is gone, or no longer valid.
        """
        config = config_renamed(complete)
        entry = method_entry(config["method"])
        own = {s: value for s, value in config["method_settings"].items() if s not in (*entry.fixed, *entry.unused)}
        read = entry.requirements(entry.settings(own)).featurizer
        # Records used to name all features, also of a method that does not read them. Those of an ensemble had no
        # weighting, which is up to its members.
        features = {
            name: values
            for name, values in config.get("features", {}).items()  # none: an ensemble's, whose members have their own
            if name == read or (read is None and values.get("weighting", "") is not None and "words" not in complete)
        }
        run = cls.parse({**config, "method_settings": own, "features": features}, "recorded settings")
        now = run.complete()["method_settings"]
        other = [name for name in entry.fixed if config["method_settings"].get(name, now[name]) != now[name]]
        if other:
            raise ConfigError(f"The settings are of another '{entry.name}': {quoted(other)} stood otherwise.")
        return run


def checked_features(features: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Check the settings of featurizers, and return those that were given as their types have them."""
    from multidomain.features.base import FEATURIZERS  # imported here: listing settings must not load scipy

    checked = {}
    for name, values in features.items():
        parsed = FEATURIZERS.find(name).settings_type.parse(values, f"settings of featurizer '{name}'")
        if values:
            checked[name] = {key: getattr(parsed, key) for key in values}
    return checked


def with_method(settings: RunSettings, method: str, method_settings: Mapping[str, Any]) -> RunSettings:
    """Return the same settings with another method."""
    return settings.model_copy(update={"method": method, "method_settings": dict(method_settings)})
