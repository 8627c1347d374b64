"""Renamed settings. Records, run folders, saved models and TOML files are read through this table.

A name is never reused with another meaning. Decision 13 says what a renaming means for records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CONFIG = {  # of a run or a TOML file: dotted names
    "features.weighting": "features.ngrams.weighting",
    "features.max_features": "features.ngrams.max_features",
    "features.ngram_range": "features.ngrams.ngram_range",
    "words.max_words": "features.sequences.max_words",
    "words.min_count": "features.sequences.min_count",
    "words.max_length": "features.sequences.max_length",
    "words.vectors": "features.sequences.vectors",
    "choice.methods": "auto.methods",
    "choice.folds": "auto.folds",
    "choice.budget": "auto.budget",
}

METHOD_SETTINGS = {"sped": {"trust": "pseudo_label_weight"}}  # of a method

REPLACED = {"sped": {"match_shares": "is now 'class_priors': labelled in place of true, estimate in place of false."}}
"""Settings of a method that gave way to others, and what to say to a user. A saved model does without them."""

ADDED = ("D_norm", "lam_epochs", "class_priors", "encoder")
"""Settings of networks that older checkpoints do not know."""

ESTIMATOR = {"features": "weighting"}  # parameters of MultiDomainClassifier

FEATURIZERS = {"bags": "ngrams", "words": "sequences", "joined": "concat"}  # in a saved model


def config_renamed(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run under their current names.

    Examples
    --------
    >>> config_renamed({"method": "lr", "features": {"weighting": "tfidf"}})
    {'method': 'lr', 'features': {'ngrams': {'weighting': 'tfidf'}}}
    """
    renamed: dict[str, Any] = {}
    for name, value in config.items():
        _put(renamed, {name: value}, CONFIG)
    for key in ("method_settings", "settings"):
        if isinstance(renamed.get(key), Mapping):
            renamed[key] = method_settings_renamed(str(renamed.get("method", "")), renamed[key])
    return renamed


def config_with_old_names(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run under their original names, which identify older checkpoints."""
    old: dict[str, Any] = {}
    _put(old, config, {new: first for first, new in CONFIG.items()})
    own = {new: first for first, new in METHOD_SETTINGS.get(config["method"], {}).items()}
    old["method_settings"] = {own.get(name, name): value for name, value in config["method_settings"].items()}
    return old


def method_settings_renamed(method: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a method under their current names."""
    names = METHOD_SETTINGS.get(method, {})
    return {names.get(name, name): value for name, value in settings.items()}


def without_replaced(method: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a method without those that gave way to others."""
    return {name: value for name, value in settings.items() if name not in REPLACED.get(method, {})}


def without_added(settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a method without those that were added later, if they are at their defaults."""
    return {name: value for name, value in settings.items() if name not in ADDED or value != defaults[name]}


def estimator_renamed(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of an estimator under their current names."""
    return {ESTIMATOR.get(name, name): value for name, value in params.items()}


def featurizer_renamed(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a featurizer with the current names of its type and its parts' types."""
    kind = state.get("kind", "bags")
    renamed = {**state, "kind": FEATURIZERS.get(kind, kind)}
    if "parts" in state:
        renamed["parts"] = [featurizer_renamed(part) for part in state["parts"]]
    return renamed


def _put(into: dict[str, Any], values: Mapping[str, Any], names: Mapping[str, str], prefix: str = "") -> None:
    """Add values to nested dictionaries, each under the new name of its path."""
    for name, value in values.items():
        path = f"{prefix}{name}"
        inner = any(old.startswith(f"{path}.") for old in names)
        if isinstance(value, Mapping) and inner:
            _put(into, value, names, f"{path}.")
            continue
        *outer, last = names.get(path, path).split(".")
        place = into
        for part in outer:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):  # a section that is none: both stay, for the check to refuse
                place, last = into, path
                break
        both = isinstance(value, Mapping) and isinstance(place.get(last, {}), Mapping)
        place[last] = {**place.get(last, {}), **value} if both else value
