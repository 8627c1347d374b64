"""Every system by its name in the paper's tables, in lower case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from multidomain.errors import ConfigError, did_you_mean
from multidomain.features.bags import Weighting
from multidomain.methods.base import Method, Task
from multidomain.methods.man import MAN
from multidomain.settings import Settings

_MAN_PAPER = "Chen and Cardie 2018, Multinomial Adversarial Networks for Multi-Domain Text Classification"


@dataclass(frozen=True)
class MethodEntry:
    """A method under its name.

    Attributes
    ----------
    fixed
        Settings that make this method what its name says; a user cannot change them.
    defaults
        Settings whose default differs from the class's.
    weighting
        What it reads of a document unless told otherwise.
    unused
        Settings of the class that have no effect in this method.
    """

    name: str
    summary: str
    paper: str
    method: type[Method]
    uses_unlabelled_text: bool
    fixed: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    weighting: Weighting = "counts"

    def settings(self, values: Mapping[str, Any]) -> Settings:
        """Check a user's settings, all at once, and add the defaults."""
        refused = dict.fromkeys(self.fixed, f"makes '{self.name}' what it is; choose another method.")
        refused |= dict.fromkeys(self.unused, f"has no effect in '{self.name}'; leave it out.")
        return self.method.settings_type.parse(
            {**self.defaults, **values}, f"settings of method '{self.name}'", refused=refused, fixed=self.fixed
        )

    def build(self, task: Task, settings: Settings) -> Method:
        """Make an untrained network."""
        return self.method(task, settings)


METHODS: dict[str, MethodEntry] = {
    entry.name: entry
    for entry in (
        MethodEntry(
            "man-nll",
            "shared and private features, an adversary with the NLL loss",
            _MAN_PAPER,
            MAN,
            uses_unlabelled_text=True,
            fixed={"adversary": "nll"},
        ),
        MethodEntry(
            "man-l2",
            "shared and private features, an adversary with the least-squares loss",
            _MAN_PAPER,
            MAN,
            uses_unlabelled_text=True,
            fixed={"adversary": "l2"},
        ),
        MethodEntry(
            "sp",
            "shared and private features, no adversary",
            _MAN_PAPER,
            MAN,
            uses_unlabelled_text=False,
            fixed={"adversary": None, "category": "shared-private"},
            unused=("lam", "k", "warm_up"),
        ),
        MethodEntry(
            "mlp",
            "one network for all domains (category 'shared') or one for each ('domain-specific')",
            _MAN_PAPER,
            MAN,
            uses_unlabelled_text=False,
            fixed={"adversary": None},
            defaults={"category": "shared"},
            unused=("lam", "k", "warm_up"),
        ),
    )
}


def method_entry(name: str) -> MethodEntry:
    """Look a method up; the error of an unknown name lists the near ones."""
    if name not in METHODS:
        raise ConfigError(f"There is no method '{name}'.{did_you_mean(name, METHODS)}")
    return METHODS[name]
