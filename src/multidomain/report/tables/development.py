"""Settings tried on the dev set, from the records of ``benchmarks/development.py``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from multidomain.errors import ConfigError
from multidomain.experiments.records import Record, read_records
from multidomain.methods.registry import METHODS
from multidomain.renamings import config_renamed
from multidomain.training.settings import RunSettings

FILE = "development.jsonl"
_ONE_OF_SEVERAL = ("dev_fold", "pseudo_target", "without")  # the runs of one line differ in these


def development_section(folder: Path) -> str:
    """Return a table of all settings tried, or an empty string if there are no records."""
    groups: dict[tuple[str, str, str], list[float]] = {}
    for record in read_records(folder / FILE):
        accuracy = 100 * float(np.mean(list(record["dev"].values())))
        groups.setdefault(_row(record), []).append(accuracy)
    if not groups:
        return ""
    lines = ["| method | non-default settings | split | dev accuracy | runs |"]
    lines.append("|---|---|---|---:|---:|")
    for (method, settings, place), accuracies in groups.items():
        spread = f" ({min(accuracies):.2f} to {max(accuracies):.2f})" if len(accuracies) > 1 else ""
        lines.append(f"| {method} | {settings} | {place} | {np.mean(accuracies):.2f}{spread} | {len(accuracies)} |")
    return "\n".join(lines)


def _row(record: Record) -> tuple[str, str, str]:
    try:
        config = RunSettings.from_record(record["config"]).complete()
    except ConfigError:  # tried with a setting that is gone since
        config = config_renamed(record["config"])
    entry = METHODS[config["method"]]
    defaults = entry.settings({}).model_dump(mode="json")
    different = {
        name: value
        for name, value in config["method_settings"].items()
        if name not in entry.fixed and defaults.get(name) != value
    }
    for values in config["features"].values():
        if "weighting" in values:
            different["features"] = values["weighting"]
        if values.get("max_length"):
            different["max_length"] = values["max_length"]
    place = ", ".join(f"{name} {value}" for name, value in record["place"].items() if name not in _ONE_OF_SEVERAL)
    return config["method"], ", ".join(f"{name} = {value}" for name, value in different.items()), place
