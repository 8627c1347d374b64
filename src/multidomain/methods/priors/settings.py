"""The setting `class_priors`: estimated, as in the labelled rows, or given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from pydantic import PlainValidator

from multidomain.errors import ConfigError, did_you_mean
from multidomain.methods.data import Examples, TrainingData
from multidomain.methods.history import ClassPrior
from multidomain.methods.priors.alignment import LEAST
from multidomain.methods.priors.estimate import PriorEstimate, estimate_priors, labelled_prior
from multidomain.saved import parse_json

_OFF = 0.02  # how far given shares may be from a sum of 1


def _checked(value: Any) -> Any:
    """Check priors; a mapping may be given as JSON, as on the command line, and names need not be strings."""
    if value in ("estimate", "labelled"):
        return value
    expected = 'expected estimate, labelled, or shares from 0 to 1: {"DOMAIN": {"CLASS": SHARE, ...}, ...}'
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = parse_json(value)
        except ValueError:
            raise ValueError(f"is not JSON; {expected}") from None
    try:
        priors = {
            str(domain): {str(name): float(share) for name, share in shares.items()} for domain, shares in value.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise ValueError(expected) from None
    if not priors or not all(0 <= share <= 1 for shares in priors.values() for share in shares.values()):
        raise ValueError(expected)
    return priors


ClassPriors: TypeAlias = Annotated[
    Literal["estimate", "labelled"] | dict[str, dict[str, float]], PlainValidator(_checked)
]


def resolved_priors(how: ClassPriors, data: TrainingData, text: Examples) -> dict[int, PriorEstimate]:
    """Return the class prior of each domain that has some text; where none is given, it is estimated."""
    wanted = [int(d) for d in np.unique(text.d)]
    given = {} if isinstance(how, str) else _given(how, data)
    for d in given.keys() - set(wanted):
        raise ConfigError(
            f"'class_priors' gives one of '{data.task.domains[d]}', whose labels tell it.", "Leave that domain out."
        )
    if how == "labelled":
        source_prior = labelled_prior(data.labelled, data.task.n_classes)
        return {d: _known(source_prior) for d in wanted}
    rest = text.select(~np.isin(text.d, list(given)))
    estimated = estimate_priors(data.labelled, rest, data.task.n_classes) if len(rest) else {}
    return {d: given[d] if d in given else estimated[d] for d in wanted}


def described(priors: Mapping[int, PriorEstimate], how: ClassPriors, data: TrainingData) -> dict[str, ClassPrior]:
    """Return class priors under the names of domains and classes."""

    def by_class(values: np.ndarray) -> dict[str, float]:
        return {str(name): float(value) for name, value in zip(data.classes, values, strict=True)}

    names = data.task.domains
    return {
        names[d]: ClassPrior(
            source=how if isinstance(how, str) else "given" if names[d] in how else "estimate",
            prior=by_class(one.prior),
            low=by_class(one.low),
            high=by_class(one.high),
            certainty=one.certainty,
            labels=one.labels,
        )
        for d, one in priors.items()
    }


def _known(prior: np.ndarray) -> PriorEstimate:
    return PriorEstimate(prior, prior, prior, certainty=1.0)


def _given(how: Mapping[str, Mapping[str, float]], data: TrainingData) -> dict[int, PriorEstimate]:
    domains, classes = data.task.domains, [str(c) for c in data.classes]
    priors = {}
    for domain, shares in how.items():
        if domain not in domains:
            raise ConfigError(f"'class_priors' names the domain '{domain}'.{did_you_mean(domain, domains)}")
        for name in shares:
            if name not in classes:
                raise ConfigError(f"'class_priors' of '{domain}' name the class '{name}'.{did_you_mean(name, classes)}")
        total = sum(shares.values())
        if abs(total - 1) > _OFF:
            raise ConfigError(f"'class_priors' of '{domain}' add up to {total:g}.", "Give shares that add up to 1.")
        prior = np.array([shares.get(name, 0.0) for name in classes]).clip(LEAST)
        priors[domains.index(domain)] = _known(prior / prior.sum())
    return priors
