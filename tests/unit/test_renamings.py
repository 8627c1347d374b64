"""Old names of settings: read as the present ones, and written where checkpoints are known by them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from multidomain.estimator import MultiDomainClassifier
from multidomain.features.base import FEATURIZERS, restored, stored
from multidomain.features.concat import ConcatFeaturizer
from multidomain.features.ngrams import NgramFeaturizer
from multidomain.features.sequences import SequenceFeaturizer
from multidomain.features.settings import SECTIONS
from multidomain.methods.registry import method_entry
from multidomain.renamings import (
    CONFIG,
    ESTIMATOR,
    METHOD_SETTINGS,
    config_renamed,
    config_with_old_names,
    estimator_renamed,
    featurizer_renamed,
    method_settings_renamed,
)
from multidomain.renamings import FEATURIZERS as KINDS
from multidomain.runs.config import AutoSettings, TrainConfig


def nested(values: dict[str, Any]) -> dict[str, Any]:
    """Dotted names as dictionaries in dictionaries."""
    out: dict[str, Any] = {}
    for name, value in values.items():
        *outer, last = name.split(".")
        place = out
        for part in outer:
            place = place.setdefault(part, {})
        place[last] = value
    return out


REST = {"method": "sped", "training": {"seed": 3, "max_epochs": 5}, "seed": 1}
OLD = nested({name: f"value of {name}" for name in CONFIG}) | REST | {"method_settings": {"trust": 0.3, "C": 1.0}}
NEW = nested({new: f"value of {name}" for name, new in CONFIG.items()})
NEW |= REST | {"method_settings": {"pseudo_label_weight": 0.3, "C": 1.0}}


def test_all_old_names_have_present_ones():
    assert config_renamed(OLD) == NEW
    assert config_with_old_names(NEW) == OLD


def test_one_is_the_inverse_of_the_other():
    assert config_renamed(config_with_old_names(NEW)) == NEW
    assert config_with_old_names(config_renamed(OLD)) == OLD


@pytest.mark.parametrize("name", CONFIG)
def test_each_name_alone(name: str):
    plain = {"method": "lr", "method_settings": {}}
    old, new = {**nested({name: 7}), **plain}, {**nested({CONFIG[name]: 7}), **plain}
    assert config_renamed(old) == new
    assert config_with_old_names(new) == old


@pytest.mark.parametrize("rename", [config_renamed, config_with_old_names])
@pytest.mark.parametrize("config", [OLD, NEW])
def test_what_is_given_stays_as_it_is(rename: Any, config: dict[str, Any]):
    before = copy.deepcopy(config)
    rename(config)
    assert config == before


def test_present_names_stay():
    assert config_renamed(NEW) == NEW
    toml = {"data": "demo", "features": {"ngrams": {"max_features": 10}, "mine": {"size": 3}}, "auto": {"folds": 4}}
    assert config_renamed(toml) == toml


@pytest.mark.parametrize("key", ["method_settings", "settings"])  # of a record, and of a TOML file
def test_settings_of_the_method_in_a_config(key: str):
    assert config_renamed({"method": "sped", key: {"trust": 0.3}}) == {
        "method": "sped",
        key: {"pseudo_label_weight": 0.3},
    }
    assert config_renamed({key: {"trust": 0.3}, "method": "sped"})[key] == {"pseudo_label_weight": 0.3}
    assert config_renamed({"method": "lr", key: {"trust": 0.3}})[key] == {"trust": 0.3}  # no setting of that method


def test_settings_of_a_method():
    assert method_settings_renamed("sped", {"trust": 0.3, "C": 1}) == {"pseudo_label_weight": 0.3, "C": 1}
    assert method_settings_renamed("lr", {"trust": 0.3}) == {"trust": 0.3}
    entry = method_entry("sped")
    assert entry.settings({"trust": 0.3}) == entry.settings({"pseudo_label_weight": 0.3})
    assert entry.recorded_settings({"trust": 0.3}).pseudo_label_weight == 0.3


def test_parameters_of_the_estimator():
    assert estimator_renamed({"features": "tfidf", "method": "lr"}) == {"weighting": "tfidf", "method": "lr"}


def test_kinds_of_featurizers():
    old = {"kind": "joined", "parts": [{"kind": "bags", "n_inputs": 2}, {"kind": "words"}, {"n_inputs": 3}]}
    assert featurizer_renamed(old) == {
        "kind": "concat",
        "parts": [{"kind": "ngrams", "n_inputs": 2}, {"kind": "sequences"}, {"kind": "ngrams", "n_inputs": 3}],
    }
    present = {"kind": "concat", "parts": [{"kind": "mine"}]}
    assert featurizer_renamed(present) == present


def test_a_featurizer_is_restored_from_old_names():
    texts = ["a good book", "a bad book", "not a film"]
    parts = [NgramFeaturizer("tfidf").fit(texts), SequenceFeaturizer(min_count=1).fit(texts)]
    both = ConcatFeaturizer(parts)
    settings, arrays = stored(both)
    old = {**settings, "kind": "joined"}
    old["parts"] = [{**part, "kind": kind} for part, kind in zip(settings["parts"], ("bags", "words"), strict=True)]
    again = restored(old, arrays)
    assert isinstance(again, ConcatFeaturizer)
    assert (again.transform(texts) != both.transform(texts)).nnz == 0


def test_present_names_are_there_and_old_ones_are_gone():
    """A name is never given a second meaning."""
    for old, new in CONFIG.items():
        section, *inner = new.split(".")
        assert section in TrainConfig.model_fields
        settings_type = AutoSettings if section == "auto" else SECTIONS[inner[0]]
        assert inner[-1] in settings_type.model_fields
        first, last = old.split(".")
        assert first not in TrainConfig.model_fields or (first == "features" and last not in FEATURIZERS)
    for method, names in METHOD_SETTINGS.items():
        known = method_entry(method).method.settings_type.model_fields
        assert all(new in known and old not in known for old, new in names.items())
    parameters = MultiDomainClassifier().get_params()
    assert all(new in parameters and old not in parameters for old, new in ESTIMATOR.items())
    assert all(new in FEATURIZERS and old not in FEATURIZERS for old, new in KINDS.items())
