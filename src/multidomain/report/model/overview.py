"""Around the figures: the head of the page, the data, and how to reproduce the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from multidomain.data.checks import DomainSummary
from multidomain.errors import counted
from multidomain.methods.registry import METHODS
from multidomain.report.model.calibration import calibration
from multidomain.report.model.folder import ModelFolder
from multidomain.report.model.markup import Html, folded, joined, paragraphs, percent, table, tag
from multidomain.report.model.verdict import verdict
from multidomain.runs.folder import CONFIG

_PARTS = {
    "train": "training; of an unlabelled row only the text",
    "dev": "model selection and early stopping",
    "test": "scored below, where labelled; not seen in training",
    "unlabelled": "training on the text only",
}


def head(run: ModelFolder) -> Html:
    """Return title, verdict and the main figures."""
    first, *others = verdict(run)
    method = METHODS[run.model.method_name]
    said = tag("p", tag("strong", first), " ", " ".join(others), class_="verdict")
    title = tag("h1", run.model.method_name, " on ", run.metrics.data.name)
    return tag("header", title, tag("p", method.summary, class_="summary"), said, _tiles(run))


def _tiles(run: ModelFolder) -> Html:
    test, apart = run.metrics.result.test, run.metrics.result.invariance
    tiles = []
    if test is not None:
        worst = min(test.domains, key=lambda score: score.accuracy)
        tiles += [("mean accuracy", percent(test.accuracy), counted(len(test.domains), "domain"))]
        tiles += [("mean macro-F1", percent(test.macro_f1), "")]
        if len(test.domains) > 1:
            tiles += [("worst domain", percent(worst.accuracy), worst.domain)]
        tiles += [("calibration error", percent(calibration(run.answers).error), "lower is better")]
    if apart is not None:
        tiles += [("domain divergence", f"{apart.nats:.3f} nats", f"of at most {apart.most:.3f}")]
    shown = [
        tag("div", tag("dt", name), tag("dd", tag("b", value), tag("small", note) if note else ""))
        for name, value, note in tiles
    ]
    return tag("dl", *shown, class_="tiles") if shown else Html()


def data_section(run: ModelFolder) -> Html:
    """Return what the corpus holds, and how it was split."""
    summary, split = run.metrics.summary, run.metrics.split
    classes = [str(name) for name in summary.class_names]
    headings = ["domain", "labels in training", "rows", "labelled", *classes, "duplicates", "conflicts"]
    numbers = [_numbers(domain) for domain in summary.domains.values()]
    totals = [f"{sum(column):,}" for column in zip(*numbers, strict=True)]
    rows = [
        [name, _labels(run, name, domain), *(f"{number:,}" for number in line)]
        for (name, domain), line in zip(summary.domains.items(), numbers, strict=True)
    ]
    parts = [[part, f"{number:,}", _PARTS.get(part, "")] for part, number in split.rows.items()]
    return joined(
        [
            paragraphs(
                f"{summary.name}: {counted(summary.rows, 'row')} in {counted(len(summary.domains), 'domain')}, "
                f"{len(classes)} classes."
            ),
            table("Rows of each domain", headings, rows, "ll" + "r" * len(totals), foot=["all", "", *totals]),
            paragraphs(
                "Duplicates: texts that occur more than once in the domain, ignoring case, punctuation and whitespace. "
                "Conflicts: duplicates with different labels."
            ),
            table(f"Split: {split.rule}", ["part", "rows", "used for"], parts, "lrl", class_="narrow"),
        ]
    )


def _numbers(domain: DomainSummary) -> list[int]:
    return [domain.rows, domain.labelled, *domain.per_class.values(), domain.repeated_texts, domain.conflicting_texts]


def _labels(run: ModelFolder, name: str, domain: DomainSummary) -> str:
    if name in run.model.labelled_domains:
        return "yes"
    return "hidden" if name in run.metrics.split.settings.get("unlabelled", ()) and domain.labelled else "none"


def settings_section(run: ModelFolder) -> Html:
    """Return everything that determined the outcome."""
    metrics = run.metrics
    facts = {
        "data": metrics.data.name,
        "SHA-256 of the data": tag("code", metrics.data.sha256),
        "method": run.model.method_name,
        **({"chosen because": run.choice.reason} if run.choice else {}),
        "inputs": f"{run.model.method.task.n_inputs:,}",
        "parameters": f"{run.model.method.n_weights:,}",
        **({"made compact": str(compaction)} if (compaction := metrics.result.compaction) else {}),
        "seed": metrics.settings.get("training", {}).get("seed", "–"),
        "multidomain": metrics.machine.get("multidomain", "–"),
    }
    groups = {"method": metrics.settings.get("method_settings", {})}
    groups |= {f"features: {name}": values for name, values in metrics.settings.get("features", {}).items()}
    groups |= {name: metrics.settings[name] for name in ("training", "objective") if name in metrics.settings}
    groups |= {"split": metrics.split.settings, "versions and machine": metrics.machine}
    same = "The same data, settings, seed, versions and number of threads give the same weights."
    repeat: Any = f"The folder has no {CONFIG}: reproduce the run with the settings below. {same}"
    if CONFIG in run.files:
        command = tag("code", f"multidomain train --config MODEL/{CONFIG} -o NEW_FOLDER")
        repeat = joined(["Reproduce the run with ", command, f" where the paths in {CONFIG} exist. {same}"])
    folds = [
        folded(
            name.capitalize(),
            table(f"Settings: {name}", ["name", "value"], [[key, _shown(v)] for key, v in values.items()], "ll"),
        )
        for name, values in groups.items()
    ]
    return joined(
        [
            table("This model", ["property", "value"], [[key, value] for key, value in facts.items()], "ll"),
            paragraphs(repeat),
            *folds,
        ]
    )


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, (list, tuple)):
        return ", ".join(_shown(part) for part in value) or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} = {_shown(part)}" for name, part in value.items()) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
