"""The rows of the paper's tables, and the settings that make each."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from multidomain.errors import ConfigError, did_you_mean
from multidomain.experiments.protocols import PROTOCOLS, Protocol
from multidomain.experiments.shifted_priors import SHIFTED
from multidomain.renamings import config_renamed
from multidomain.saved import read_toml
from multidomain.settings import Settings
from multidomain.training.settings import RunSettings, with_method

if TYPE_CHECKING:
    import polars as pl

TABLES = ("table1", "table2", "table3")
"""The paper's."""

STUDIES = ("priors", "priors-fdu", "three-classes", "target-labels", "few-labels")
"""Our own, of domains with few labels or none."""

_PROTOCOLS = {**PROTOCOLS, **SHIFTED}


class Row(Settings):
    """One row of a table.

    Attributes
    ----------
    category, system
        As the published table spells them.
    extractor
        What turns a document into features: ``linear`` for none.
    seeds
        Number of seeds; a deterministic method is run once.
    settings, features, training
        What differs from the defaults of `RunSettings`.
    only
        Values of the split to run, by name, such as ``{draw = [1]}``; all by default.
    note
        What a reader of the table must know about this row.
    """

    category: str
    system: str
    method: str
    extractor: str
    seeds: int = Field(3, ge=1)
    settings: dict[str, Any] = Field(default_factory=dict)
    features: dict[str, dict[str, Any]] = Field(default_factory=dict)
    training: dict[str, Any] = Field(default_factory=dict)
    only: dict[str, list[Any]] = Field(default_factory=dict)
    note: str = ""

    @property
    def name(self) -> str:
        """Return the unique name of the row in its table."""
        return f"{self.category}/{self.system}"

    @property
    def is_random(self) -> bool:
        """Tell whether a seed changes the outcome."""
        return self.run_settings(0).requirements.is_random

    @property
    def reads_text(self) -> bool:
        """Tell whether unlabelled text changes the outcome: the method uses it, or the features are fitted on it."""
        settings = self.run_settings(0)
        features = settings.complete()["features"].values()
        fitted_on_text = any(values.get("weighting") == "tfidf" for values in features)
        return fitted_on_text or settings.requirements.unlabelled_text

    def run_settings(self, seed: int) -> RunSettings:
        """Return the settings of a run."""
        values = {
            "method": self.method,
            "method_settings": self.settings,
            "features": self.features,
            "training": {**self.training, "seed": seed},
        }
        return RunSettings.parse(values, f"settings of row '{self.name}'")


class Recipe(Settings):
    """A table: how it is measured and what its rows are.

    With a `split_seed` it is measured on a new split; without one on the split that the corpus gives.
    """

    title: str
    protocol: str
    published: str | None = None
    rows: tuple[Row, ...] = Field(min_length=1)
    split_seed: int | None = Field(None, ge=0)

    @field_validator("protocol")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in _PROTOCOLS:
            raise ValueError(f"there is no protocol '{name}'.{did_you_mean(name, _PROTOCOLS)}")
        return name

    @property
    def experiment(self) -> Protocol:
        """Return the protocol behind the name."""
        return _PROTOCOLS[self.protocol]

    def on_split(self, seed: int | None) -> Recipe:
        """Return the same table on another split."""
        return self.model_copy(update={"split_seed": seed})

    def split_specs(self, row: Row) -> list[dict[str, Any]]:
        """Return all runs of one row and seed."""
        specs = self.experiment.split_specs(reads_text=row.reads_text, split_seed=self.split_seed)
        found = [spec for spec in specs if all(spec.get(name) in values for name, values in row.only.items())]
        if not found:
            raise ConfigError(f"Row '{row.name}' has no run: no split has {row.only}. One that there is: {specs[0]}.")
        return found

    def published_table(self) -> pl.DataFrame:
        """Return the paper's own figures."""
        import polars as pl

        assert self.published is not None
        return pl.read_csv(resources.files(__package__).joinpath("published", self.published).read_bytes())

    def members_of(self, ensemble: Row) -> list[Row]:
        """Return the rows whose models a row joins; none if it is no ensemble."""
        joined = ensemble.run_settings(0)
        wanted = [with_method(joined, m.method, m.settings) for m in joined.requirements.members if not m.folder]
        return [row for row in self.rows if row.run_settings(0) in wanted] if wanted else []

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
    """Return the rows of all tables and studies that a method stands in, as ``table1 shared/LR``."""
    tables = (*TABLES, *STUDIES)
    return [f"{table} {row.name}" for table in tables for row in load_recipe(table).rows if row.method == method]


def load_recipe(table: str) -> Recipe:
    """Return the recipe of a table by its name, or from a TOML file of one's own by its path."""
    if table in (*TABLES, *STUDIES):
        text = resources.files(__package__).joinpath("recipes", f"{table}.toml").read_text(encoding="utf-8")
        return Recipe.parse(tomllib.loads(text), f"recipe of {table}")
    path = Path(table)
    if path.stem in (*TABLES, *STUDIES):
        raise ConfigError(f"{path} would share its records with our own {path.stem}.", "Rename the file.")
    if path.suffix != ".toml" or not path.is_file():
        raise ConfigError(
            f"There is no table '{table}'.{did_you_mean(table, (*TABLES, *STUDIES))}",
            "Or give the TOML file of a recipe of yours.",
        )
    content = read_toml(path)
    rows = content.get("rows", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ConfigError(f"Invalid recipe {path}: 'rows' should be tables.", "Begin each row with [[rows]].")
    rows = [config_renamed(row) for row in rows]
    for row in rows:
        if ".py:" in str(row.get("method", "")):  # a file beside the recipe
            row["method"] = str(path.parent / row["method"])
    return Recipe.parse({**content, "rows": rows}, f"recipe {path}")


def table_name(table: str) -> str:
    """Return the name of a table, which its records go by."""
    return Path(table).stem if table not in (*TABLES, *STUDIES) else table
