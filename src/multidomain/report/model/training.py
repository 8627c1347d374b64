"""How training went: learning curves, and values tried."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from multidomain.errors import counted
from multidomain.report.model.charts import Series, line_chart, share_bar, whole_percent
from multidomain.report.model.drawing import colour, legend
from multidomain.report.model.folder import ModelFolder, Tried
from multidomain.report.model.markup import Html, figure, folded, joined, listed, paragraphs, percent, table, tag
from multidomain.training.callbacks import Epoch

_LOSSES = {
    "J_C": "Loss of the classifier: falls as the labels of the training rows are learnt.",
    "J_D": "Loss of the discriminator D, which names the domain from the shared features.",
    "J_Fs": "Loss of the shared extractor against D: the lower, the more D is confused.",
    "orthogonality": "How much shared and private features say the same.",
}
_ROWS_SHOWN = 20  # of values tried, before the rest is folded


def training_section(run: ModelFolder) -> Html:
    """Return the curves of networks, and what was tried of methods that are fitted at once."""
    result = run.metrics.result
    networks = _kept_epochs(result.chosen) if not result.epochs else [(run.model.method_name, result.best_epoch)]
    parts: list[Any] = []
    if _is_joined(result.chosen):
        chosen = [[member, _values(values)] for member, values in result.chosen.items()]
        parts.append(paragraphs("Several models were trained one after the other, and their probabilities averaged."))
        parts.append(table("What each member has chosen on development rows", ["member", "chosen"], chosen, "ll"))
    for curve, (name, kept) in zip(run.curves, networks, strict=False):
        parts.append(_curves(run, curve, name, kept))
    if run.tried and result.chosen:
        parts.append(_tried(run.tried, result.chosen))
    if not parts:
        before = run.model.method_name == "ensemble"
        said = (
            "Its members were trained before, and are only joined here." if before else "There was nothing to choose."
        )
        parts.append(paragraphs(said))
    return joined([*parts, paragraphs(f"The whole run took {result.seconds:,.1f} s.")])


def _is_joined(chosen: Mapping[str, Any]) -> bool:
    return bool(chosen) and all(isinstance(values, Mapping) for values in chosen.values())


def _kept_epochs(chosen: Mapping[str, Any]) -> list[tuple[str, int]]:
    if not _is_joined(chosen):
        return []
    return [(name, values["epoch"]) for name, values in chosen.items() if "epoch" in values]


def _curves(run: ModelFolder, epochs: Sequence[Epoch], method: str, kept: int) -> Html:
    has_dev = any(epoch.dev_accuracy is not None for epoch in epochs)
    figures, names = [], list(dict.fromkeys(name for epoch in epochs for name in epoch.log))
    if has_dev:
        figures.append(_development(run, epochs, kept))
    if "D_accuracy" in names:
        chance = 1 / len(run.model.domains)
        drawn = line_chart(
            [Series("D", [epoch.log.get("D_accuracy") for epoch in epochs], "c1")],
            f"How often D names the right domain, by epoch, against a chance of {percent(chance)}.",
            name="D names the right domain",
            show=whole_percent,
            whole=(0.0, 1.0),
            level=(chance, f"chance {percent(chance)}"),
            kept=kept,
        )
        said = "Accuracy of D on training text. Near chance, either the features hide the domain or D has given up: "
        figures.append(figure(drawn, f"{said}the fresh probe below tells which."))
    lost = []
    for name in names:
        values = [epoch.log.get(name) for epoch in epochs]
        if name == "D_accuracy":
            continue
        if not any(value is not None and math.isfinite(value) for value in values):
            lost.append(name)
            continue
        drawn = line_chart([Series(name, values, "c0")], f"{name} by epoch.", name=name, kept=kept)
        figures.append(figure(drawn, _LOSSES.get(name, f"{name}, mean over the epoch.")))
    headings = ["epoch", *names, *(["development accuracy"] if has_dev else []), "seconds"]
    why = "the first with the best development accuracy" if has_dev else "the last, since there are no development rows"
    return joined(
        [
            paragraphs(
                f"{method} was trained for {counted(len(epochs), 'epoch')}; the weights of epoch {kept} were kept, "
                f"{why}. Losses are means over an epoch, summed over domains.",
                f"Never finite: {listed(lost)}." if lost else "",
            ),
            tag("div", *figures, class_="charts"),
            folded(
                "The figures of each epoch",
                table(
                    f"Epochs of {method}",
                    headings,
                    [_epoch_line(epoch, names, has_dev, epoch.epoch == kept) for epoch in epochs],
                    "l" + "r" * (len(headings) - 1),
                ),
            ),
        ]
    )


def _development(run: ModelFolder, epochs: Sequence[Epoch], kept: int) -> Html:
    domains = list(dict.fromkeys(name for epoch in epochs for name in epoch.dev_accuracy_by_domain))
    lines = [
        Series(
            name,
            [epoch.dev_accuracy_by_domain.get(name) for epoch in epochs],
            f"{colour(run.domains.index(name))} thin",
        )
        for name in domains
        if name in run.domains
    ]
    lines = lines if 1 < len(lines) <= 8 else []  # more would be a thicket
    mean = Series("mean of domains", [epoch.dev_accuracy for epoch in epochs], "mean")
    reached = epochs[kept - 1].dev_accuracy if 0 < kept <= len(epochs) else None
    drawn = line_chart(
        [*lines, mean],
        f"Development accuracy by epoch; {percent(reached)} in the epoch that was kept.",
        name="development accuracy",
        show=whole_percent,
        kept=kept,
    )
    entries = [(_stroke(one.class_), one.name) for one in [mean, *lines]]
    said = "Accuracy on development rows, which decides the epoch that is kept"
    return figure(drawn, f"{said} ({percent(reached)}).", legend(entries) if lines else None)


def _stroke(class_: str) -> Html:
    return tag("g", tag("path", d="M1 8h16"), class_=f"series {class_}")


def _epoch_line(epoch: Epoch, names: Sequence[str], has_dev: bool, kept: bool) -> list[Any]:
    values = [_number(epoch.log[name]) if name in epoch.log else "–" for name in names]
    dev = [percent(epoch.dev_accuracy)] if has_dev else []
    return [f"{epoch.epoch} (kept)" if kept else epoch.epoch, *values, *dev, f"{epoch.seconds:.1f}"]


def _tried(tried: Sequence[Tried], chosen: Mapping[str, Any]) -> Html:
    names = list(dict.fromkeys(name for line in tried for name in line.tried))
    best = _chosen_line(tried, chosen)
    rows = []
    for number, line in enumerate(tried):
        values = [_number(line.tried[name]) if name in line.tried else "–" for name in names]
        reached = line.dev_accuracy
        bar = "" if reached is None else share_bar(reached)
        rows.append([*values, joined([percent(reached), " ", bar]), "chosen" if number == best else ""])
    caption = f"Values tried: {len(tried)}"
    whole = table(caption, [*names, "development accuracy", ""], rows, "r" * len(names) + "rl", class_="narrow")
    if _is_joined(chosen):
        said = "Members that are fitted at once were fitted with several values, and each chose its best."
    elif all(line.dev_accuracy is None for line in tried):
        said = (
            "The method is fitted at once, so it has no epochs. Without development rows nothing could be chosen: the "
            "value in the middle was taken."
        )
    else:
        said = (
            "The method is fitted at once, so it has no epochs. It was fitted with several values, and the best on "
            f"development rows was chosen: {_values(chosen)}."
        )
    folds = len(rows) > _ROWS_SHOWN
    return joined([paragraphs(said), folded(caption, whole) if folds else whole])


def _chosen_line(tried: Sequence[Tried], chosen: Mapping[str, Any]) -> int | None:
    """Return the number of the last line with the chosen values; earlier ones are of rounds that were replaced."""
    numbers = [i for i, line in enumerate(tried) if chosen and chosen.items() <= line.tried.items()]
    return numbers[-1] if numbers else None


def _values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {_number(value)}" for name, value in values.items()) or "nothing to choose"


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
