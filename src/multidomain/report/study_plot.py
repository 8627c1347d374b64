"""The plot of a study: the best dev score so far, and the dev scores by each setting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from multidomain.report.tables.plots import GRID, OURS, PUBLISHED, figure_content, styled_figures
from multidomain.tuning.folder import Asked, best_of
from multidomain.tuning.trial import TrialRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_COLUMNS = 3


def plot_trials(records: Sequence[TrialRecord], asked: Asked) -> bytes:
    """Draw a study and return it as SVG.

    Raises
    ------
    ConfigError
        If matplotlib is not installed.
    """
    panels = 1 + len(asked.search)
    columns = min(_MOST_COLUMNS, panels)
    rows = -(-panels // columns)
    with styled_figures() as figure_type:
        figure = figure_type(figsize=(3.6 * columns, 2.8 * rows), layout="constrained")
        axes = list(figure.subplots(rows, columns, squeeze=False, sharey=True).flat)
        _draw_progress(axes[0], records)
        for axis, (name, spec) in zip(axes[1:], asked.search.items(), strict=False):
            _draw_setting(axis, records, name, spec)
        for axis in axes[panels:]:
            axis.remove()
        for axis in axes[:panels]:
            axis.grid(axis="y", color=GRID, linewidth=0.6)
        for axis in axes[:panels:columns]:
            axis.set_ylabel(f"dev {asked.metric}, %")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
        return figure_content(figure, "svg")


def _draw_progress(axis: Axes, records: Sequence[TrialRecord]) -> None:
    _draw_points(axis, [(one.number, one) for one in records])
    best = [(one.number, best_of(records[: one.number + 1])) for one in records]
    reached = [(number, 100 * found.score) for number, found in best if found and found.score is not None]
    axis.step([x for x, _ in reached], [y for _, y in reached], where="post", color=OURS, label="best so far")
    axis.set_xlabel("trial")


def _draw_setting(axis: Axes, records: Sequence[TrialRecord], name: str, spec: str) -> None:
    drawn = [(one.values[name], one) for one in records if name in one.values]
    if ".." not in spec:
        drawn = [(str(value), one) for value, one in drawn]
    _draw_points(axis, drawn)
    if spec.endswith(":log"):
        axis.set_xscale("log")
    axis.set_xlabel(name)


def _draw_points(axis: Axes, drawn: Sequence[tuple[Any, TrialRecord]]) -> None:
    for state, color in (("complete", OURS), ("pruned", PUBLISHED)):
        points = [(x, 100 * one.score) for x, one in drawn if one.state == state and one.score is not None]
        axis.plot([x for x, _ in points], [y for _, y in points], "o", color=color, markersize=4, label=state)
