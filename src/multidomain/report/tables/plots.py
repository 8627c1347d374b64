"""Plots: of each table our average of each system beside the published one; of a study accuracy by prevalence."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from multidomain.errors import ConfigError
from multidomain.report.tables.layout import variant_title
from multidomain.report.tables.studies import StudyResults
from multidomain.report.tables.study_layout import drawn_prevalences
from multidomain.report.tables.types import SystemResult, TableResults, VariantResults

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OURS, PUBLISHED, GRID = "#0b5394", "#b45309", "#d9d9d9"
PLOTTED = {
    "shared-private/SPED": "C0o-",
    "shared-private/SPED, labelled prior": "C0s--",
    "shared/LR": "C1o-",
    "shared-private/MAN-NLL-SP-MLP": "C2^-",
    "shared/mSDA": "C4v-",
    "shared/majority": "C7.:",
}
"""Systems of a study that are drawn, and how."""

STYLE: Any = {
    "svg.hashsalt": "multidomain",  # or the ids inside the file would differ from run to run
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
}


def plot_table(table: TableResults, kind: str = "svg") -> bytes:
    """Draw a table and return the file's content, as SVG or another format that matplotlib writes.

    The same figures give the same SVG, so that a report in version control changes only when they do.

    Raises
    ------
    ConfigError
        If matplotlib is not installed.
    """
    with styled_figures() as figure_type:
        panels, columns = table.variants, min(2, len(table.variants))
        rows = -(-len(panels) // columns)
        height = 0.24 * max(len(_lines(results)) for results in panels) + 0.7
        figure = figure_type(figsize=(6.2 if columns == 1 else 9.6, rows * height + 0.7), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.08, h_pad=0.1)
        axes = list(figure.subplots(rows, columns, squeeze=False, sharex=True).flat)
        for axis, results in zip(axes, panels, strict=False):
            _panel(axis, results)
        for axis in axes[len(panels) :]:
            axis.remove()
        figure.suptitle(f"Table {table.name.removeprefix('table')}. {table.title}", fontsize=11, x=0.01, ha="left")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
        return figure_content(figure, kind)


def plot_study(study: StudyResults, kind: str = "svg") -> bytes | None:
    """Draw accuracy by prevalence for the main systems with text other than the test rows; None without any.

    Raises
    ------
    ConfigError
        If matplotlib is not installed.
    """
    variant = next((found for found in study.variants if found.target_text == "train"), None)
    found = [variant.system(name) for name in PLOTTED] if variant and study.labels is None else []
    systems = [system for system in found if system and system.is_complete]
    drawn = drawn_prevalences(systems)
    if not drawn:
        return None
    with styled_figures() as figure_type:
        figure = figure_type(figsize=(6.2, 4.4), layout="constrained")
        axis = figure.subplots()
        axis.grid(axis="y", color=GRID, linewidth=0.6)
        for system in systems:
            accuracies = [system.mean_at("test", prevalence) for prevalence in drawn]
            axis.plot(drawn, accuracies, PLOTTED[system.row.name], label=system.row.system)
        axis.set_xticks(drawn)
        axis.set_xlabel("positive rows of the target, %")
        axis.set_ylabel("accuracy, %")
        axis.set_title(study.title, fontsize=10, loc="left")
        figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
        return figure_content(figure, kind)


def figure_content(figure: Figure, kind: str) -> bytes:
    """Return the content of a figure's file, the same for the same figure."""
    content = io.BytesIO()
    figure.savefig(content, format=kind, metadata={"Date": None, "Creator": None} if kind == "svg" else {})
    return content.getvalue()


@contextmanager
def styled_figures() -> Iterator[Any]:
    """Yield the type of figures, with our style; raise a `ConfigError` if matplotlib is not installed."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError("Plots need matplotlib. Install it with: pip install 'multidomain[plots]'") from None
    with matplotlib.rc_context(STYLE):
        yield Figure


def _lines(results: VariantResults) -> list[str | SystemResult]:
    """Return the lines of a panel: each category's name above its systems."""
    lines: list[str | SystemResult] = []
    category = None
    for system in results.systems:
        if system.row.category != category:
            category = system.row.category
            lines.append(category)
        lines.append(system)
    return lines


def _panel(axis: Axes, results: VariantResults) -> None:
    lines = _lines(results)
    places = {line.row.name: -y for y, line in enumerate(lines) if isinstance(line, SystemResult)}
    systems = list(results.systems)
    ours = [places[system.row.name] for system in systems]
    known = [system for system in systems if system.published]
    axis.hlines(ours, 0, 1, transform=axis.get_yaxis_transform(), color=GRID, linewidth=0.6, zorder=0)
    axis.plot(
        [system.published.average for system in known if system.published],
        [places[system.row.name] for system in known],
        "o",
        markerfacecolor="none",
        markeredgecolor=PUBLISHED,
        markersize=7,
        label="published",
    )
    axis.errorbar(
        [system.average for system in systems],
        ours,
        xerr=[system.se or 0.0 for system in systems],
        fmt="o",
        color=OURS,
        markersize=4,
        elinewidth=1.4,
        label="ours, ± 1 SE over seeds",
    )
    axis.set_yticks([-y for y in range(len(lines))])
    axis.set_yticklabels([line if isinstance(line, str) else line.row.system for line in lines])
    for label, line in zip(axis.get_yticklabels(), lines, strict=True):
        if isinstance(line, str):
            label.set(fontweight="bold", fontsize=8)
    axis.tick_params(axis="y", length=0)
    axis.tick_params(axis="x", labelbottom=True)
    axis.set_ylim(-len(lines) + 0.4, 0.6)
    axis.set_xlabel("average accuracy, %")
    axis.set_title(variant_title(results.variant), fontsize=9, loc="left")
