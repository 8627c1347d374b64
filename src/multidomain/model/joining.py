"""Joining several models into one."""

from __future__ import annotations

from collections.abc import Sequence

from multidomain.errors import ConfigError, quoted
from multidomain.features.concat import ConcatFeaturizer
from multidomain.methods.registry import method_entry
from multidomain.model.model import Model
from multidomain.settings import Settings


def join_models(name: str, models: Sequence[Model], settings: Settings | None = None) -> Model:
    """Join models of the same classes into one model of an ensemble method, with its settings or its defaults."""
    first = models[0]
    for model in models:
        if model.classes != first.classes:
            raise ConfigError(
                f"Models of different classes cannot be joined: {quoted(first.classes)} and {quoted(model.classes)}."
            )
    features = ConcatFeaturizer([model.features for model in models])
    members = [(model.method_name, model.method) for model in models]
    entry = method_entry(name)
    own = entry.settings({}) if settings is None else settings
    method = entry.method.join(members, features.starts, features.n_inputs, own)
    return Model(name, method, features, first.classes)
