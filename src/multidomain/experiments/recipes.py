"""The rows of the paper's tables, and the settings that make each."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from importlib import resources
from typing import Any

import polars as pl
from pydantic import Field

from multidomain.errors import ConfigError, did_you_mean
from multidomain.experiments.protocols import PROTOCOLS, Protocol
from multidomain.methods.base import FittedMethod
from multidomain.methods.registry import method_entry
from multidomain.settings import Settings
from multidomain.training.train import RunSettings

TABLES = ("table1", "table2", "table3")


class Row(Settings):
    """One row of a table.

    Attributes
    ----------
    category, system
        As the published table spells them.
    extractor
        What turns a document into features: ``linear`` for none.
    seeds
        How many; a method without randomness is run once.
    settings, features, words, training
        What differs from the defaults of `RunSettings`.
    note
        What a reader of the table must know about this row.
    """

    category: str
    system: str
    method: str
    extractor: str
    seeds: int = Field(3, ge=1)
    settings: dict[str, Any] = Field(default_factory=dict)
    features: dict[str, Any] = Field(default_factory=dict)
    words: dict[str, Any] = Field(default_factory=dict)
    training: dict[str, Any] = Field(default_factory=dict)
    note: str = ""

    @property
    def name(self) -> str:
        """Return what tells this row from all others of its table."""
        return f"{self.category}/{self.system}"

    @property
    def is_random(self) -> bool:
        """Tell whether a seed changes the outcome."""
        return not issubclass(method_entry(self.method).method, FittedMethod)

    @property
    def reads_text(self) -> bool:
        """Tell whether unlabelled text changes the outcome: the method uses it, or the features are fitted on it."""
        fitted_on_text = self.run_settings(0).resolved_features().weighting == "tfidf"
        return fitted_on_text or method_entry(self.method).uses_unlabelled_text

    def run_settings(self, seed: int) -> RunSettings:
        """Return the settings of a run."""
        values = {
            "method": self.method,
            "method_settings": self.settings,
            "features": self.features,
            "words": self.words,
            "training": {**self.training, "seed": seed},
        }
        return RunSettings.parse(values, f"settings of row '{self.name}'")


class Recipe(Settings):
    """A table: how it is measured and what its rows are.

    With a `split_seed` it is measured on a new split; without one on the split that the corpus gives.
    """

    title: str
    protocol: str
    published: str
    rows: tuple[Row, ...]
    split_seed: int | None = Field(None, ge=0)

    @property
    def experiment(self) -> Protocol:
        """Return the protocol behind the name."""
        return PROTOCOLS[self.protocol]

    def on_split(self, seed: int | None) -> Recipe:
        """Return the same table on another split."""
        return self.model_copy(update={"split_seed": seed})

    def places(self, *, reads_text: bool) -> list[dict[str, Any]]:
        """Return all runs of one system and seed; `reads_text` tells whether unlabelled text can change them."""
        return self.experiment.places(reads_text=reads_text, split_seed=self.split_seed)

    def published_table(self) -> pl.DataFrame:
        """Return the paper's own figures."""
        return pl.read_csv(resources.files(__package__).joinpath("published", self.published).read_bytes())

    def members_of(self, ensemble: Row) -> list[Row]:
        """Return the rows whose models a row joins; none if it is no ensemble."""
        if ensemble.method != "ensemble":
            return []
        joined = ensemble.run_settings(0)
        members = joined.method_settings["members"]
        wanted = [
            joined.model_copy(update={"method": member["method"], "method_settings": member["settings"]})
            for member in members
        ]
        return [row for row in self.rows if row.run_settings(0) in wanted]

    def only(self, names: Sequence[str]) -> list[Row]:
        """Return the rows that are named by system, method, category, or category and system; all if none is."""
        chosen: list[Row] = []
        for name in names:
            wanted = name.lower()
            rows = [r for r in self.rows if wanted in (r.system.lower(), r.method, r.category, r.name.lower())]
            if not rows:
                valid = [r.system for r in self.rows] + [r.name for r in self.rows]
                raise ConfigError(f"There is no row '{name}' in this table.{did_you_mean(name, dict.fromkeys(valid))}")
            chosen += rows
        return [row for row in self.rows if row in chosen] if names else list(self.rows)


def rows_of(method: str) -> list[str]:
    """Return the rows of all tables that a method stands in, as ``table1 shared/LR``."""
    return [f"{table} {row.name}" for table in TABLES for row in load_recipe(table).rows if row.method == method]


def load_recipe(table: str) -> Recipe:
    """Return the recipe of a table by its name."""
    if table not in TABLES:
        raise ConfigError(f"There is no table '{table}'.{did_you_mean(table, TABLES)}")
    text = resources.files(__package__).joinpath("recipes", f"{table}.toml").read_text(encoding="utf-8")
    return Recipe.parse(tomllib.loads(text), f"recipe of {table}")
