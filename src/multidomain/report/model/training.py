"""Training: learning curves, and hyperparameters tried."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from multidomain.errors import counted
from multidomain.methods.history import Epoch
from multidomain.metrics import METRIC_NAMES
from multidomain.report.model.charts import Series, line_chart, share_bar, whole_percent
from multidomain.report.model.drawing import colour, legend
from multidomain.report.model.folder import ModelFolder, Tried
from multidomain.report.model.markup import Html, figure, folded, joined, listed, paragraphs, percent, table, tag

_LOSSES = {
    "J_C": "Loss of the classifier on the labelled training rows.",
    "J_D": "Loss of the discriminator D, which predicts the domain from the shared features.",
    "J_Fs": "Loss of the shared extractor against D: the lower, the more D is confused.",
    "orthogonality": "Overlap of shared and private features.",
}
_ROWS_SHOWN = 20  # of hyperparameters tried; a longer table is collapsed


def training_section(run: ModelFolder) -> Html:
    """Return the learning curves of networks, and the hyperparameters tried by methods without epochs."""
    result = run.metrics.result
    networks = _kept_epochs(result.chosen) if not result.epochs else [(run.model.method_name, result.best_epoch)]
    parts: list[Any] = []
    if _is_joined(result.chosen):
        chosen = [[member, _values(values)] for member, values in result.chosen.items()]
        parts.append(paragraphs("The model is an ensemble: the probabilities of its members are averaged."))
        parts.append(table("What each member chose on the dev set", ["member", "chosen"], chosen, "ll"))
    for curve, (name, kept) in zip(run.curves, networks, strict=False):
        parts.append(_curves(run, curve, name, kept))
    if run.tried and result.chosen:
        parts.append(_tried(run.tried, result.chosen, _score_name(run)))
    if not parts:
        before = bool(run.model.requirements.members)
        said = (
            "Its members were trained separately and are only combined here."
            if before
            else "There were no hyperparameters to choose."
        )
        parts.append(paragraphs(said))
    return joined([*parts, paragraphs(f"The run took {result.seconds:,.1f} s.")])


def _is_joined(chosen: Mapping[str, Any]) -> bool:
    return bool(chosen) and all(isinstance(values, Mapping) for values in chosen.values())


def _kept_epochs(chosen: Mapping[str, Any]) -> list[tuple[str, int]]:
    if not _is_joined(chosen):
        return []
    return [(name, values["epoch"]) for name, values in chosen.items() if "epoch" in values]


def _curves(run: ModelFolder, epochs: Sequence[Epoch], method: str, kept: int) -> Html:
    has_dev, score = any(epoch.dev_score is not None for epoch in epochs), _score_name(run)
    figures, names = [], list(dict.fromkeys(name for epoch in epochs for name in epoch.log))
    if has_dev:
        figures.append(_development(run, epochs, kept))
    if "D_accuracy" in names:
        chance = 1 / len(run.model.domains)
        drawn = line_chart(
            [Series("D", [epoch.log.get("D_accuracy") for epoch in epochs], "c1")],
            f"Accuracy of D by epoch, against a chance of {percent(chance)}.",
            name="accuracy of D",
            show=whole_percent,
            whole=(0.0, 1.0),
            level=(chance, f"chance {percent(chance)}"),
            kept=kept,
        )
        said = "Accuracy of D on training text. Near chance, either the features hide the domain or D is too weak: "
        figures.append(figure(drawn, f"{said}the fresh probe below shows which."))
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
    headings = ["epoch", *names, *([score] if has_dev else []), "seconds"]
    why = f"the first with the best {score}" if has_dev else "the last, since there is no dev set"
    return joined(
        [
            paragraphs(
                f"{method} was trained for {counted(len(epochs), 'epoch')}; the checkpoint of epoch {kept} was kept, "
                f"{why}. Losses are means over an epoch, summed over domains.",
                f"Never finite: {listed(lost)}." if lost else "",
            ),
            tag("div", *figures, class_="charts"),
            folded(
                "Figures of each epoch",
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
    # More would be unreadable, and accuracies do not belong beside macro-F1.
    lines = lines if 1 < len(lines) <= 8 and run.metric != "macro-f1" else []
    selects = "worst domain" if run.metric == "worst-domain" else "mean of domains"
    mean = Series(selects, [epoch.dev_score for epoch in epochs], "mean")
    reached = epochs[kept - 1].dev_score if 0 < kept <= len(epochs) else None
    score = METRIC_NAMES[run.metric]
    drawn = line_chart(
        [*lines, mean],
        f"Dev {score} by epoch; {percent(reached)} in the epoch that was kept.",
        name=_score_name(run),
        show=whole_percent,
        kept=kept,
    )
    entries = [(_stroke(one.class_), one.name) for one in [mean, *lines]]
    said = f"{score[0].upper()}{score[1:]} on the dev set, which selects the checkpoint"
    return figure(drawn, f"{said} ({percent(reached)}).", legend(entries) if lines else None)


def _score_name(run: ModelFolder) -> str:
    return f"dev {METRIC_NAMES[run.metric]}"


def _stroke(class_: str) -> Html:
    return tag("g", tag("path", d="M1 8h16"), class_=f"series {class_}")


def _epoch_line(epoch: Epoch, names: Sequence[str], has_dev: bool, kept: bool) -> list[Any]:
    values = [_number(epoch.log[name]) if name in epoch.log else "–" for name in names]
    dev = [percent(epoch.dev_score)] if has_dev else []
    return [f"{epoch.epoch} (kept)" if kept else epoch.epoch, *values, *dev, f"{epoch.seconds:.1f}"]


def _tried(tried: Sequence[Tried], chosen: Mapping[str, Any], score: str) -> Html:
    names = list(dict.fromkeys(name for line in tried for name in line.tried))
    best = _chosen_line(tried, chosen)
    rows = []
    for number, line in enumerate(tried):
        values = [_number(line.tried[name]) if name in line.tried else "–" for name in names]
        reached = line.dev_score
        bar = "" if reached is None else share_bar(reached)
        rows.append([*values, joined([percent(reached), " ", bar]), "chosen" if number == best else ""])
    caption = f"Hyperparameters tried: {len(tried)}"
    whole = table(caption, [*names, score, ""], rows, "r" * len(names) + "rl", class_="narrow")
    if _is_joined(chosen):
        said = "Members that do not learn in epochs tried several hyperparameters and kept the best on the dev set."
    elif all(line.dev_score is None for line in tried):
        said = (
            "The method does not learn in epochs. Without a dev set nothing could be selected: the middle value was "
            "used."
        )
    else:
        said = (
            "The method does not learn in epochs. It tried several hyperparameters, and the best on the dev set was "
            f"chosen: {_values(chosen)}."
        )
    folds = len(rows) > _ROWS_SHOWN
    return joined([paragraphs(said), folded(caption, whole) if folds else whole])


def _chosen_line(tried: Sequence[Tried], chosen: Mapping[str, Any]) -> int | None:
    """Return the index of the last line with the chosen values; earlier ones are from rounds that were replaced."""
    numbers = [i for i, line in enumerate(tried) if chosen and chosen.items() <= line.tried.items()]
    return numbers[-1] if numbers else None


def _values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {_number(value)}" for name, value in values.items()) or "nothing to choose"


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
