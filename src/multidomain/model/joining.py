"""Joining several models into one."""

from __future__ import annotations

from collections.abc import Sequence

from multidomain.errors import ConfigError, quoted
from multidomain.features.concat import ConcatFeaturizer
from multidomain.methods.registry import method_entry
from multidomain.model.model import Model


def join_models(name: str, models: Sequence[Model]) -> Model:
    """Join models of the same classes into one model of an ensemble method."""
    first = models[0]
    for model in models:
        if model.classes != first.classes:
            raise ConfigError(
                f"Models of different classes cannot be joined: {quoted(first.classes)} and {quoted(model.classes)}."
            )
    features = ConcatFeaturizer([model.features for model in models])
    members = [(model.method_name, model.method) for model in models]
    method = method_entry(name).method.join(members, features.starts, features.n_inputs)
    return Model(name, method, features, first.classes)
