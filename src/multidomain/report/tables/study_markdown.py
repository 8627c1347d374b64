"""The part of a report on domains without labels, or with a few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from multidomain.report.tables.markdown_grid import dropped, grid_markdown
from multidomain.report.tables.studies import BASELINE, OURS, StudyResults, StudyVariant
from multidomain.report.tables.study_layout import (
    CALIBRATION_MARGIN,
    MARGIN,
    cells_grid,
    comparison_grid,
    gap_grid,
    labels_grid,
    scores_grid,
)

HEADING = "Domains without labels"

INTRODUCTION = f"""\
Our own experiments, made by `multidomain reproduce priors` and likewise. A target has no label, or a few, and its \
class prior is resampled (but for the three classes of vader): its unlabelled text and its test rows both have the \
same share of positive rows, the prevalence. Selection uses the dev sets of the sources. A *cell* is a target and a \
prevalence; figures of a cell are means over draws of its rows, means are over cells. All scores are in per cent, \
differences in points.

- **prior error**: mean absolute error of the estimated share of a class; **in 95 % interval**: how often its \
interval has the true one. Of systems that estimate it.
- **worst cell**: the lowest difference of a cell.
- **below**: cells in which the 95 % interval of the difference is entirely more than {MARGIN} points below; for \
accuracy a normal interval of the paired difference over the test rows of all draws, for macro-F1 a paired bootstrap \
over them (1,000 resamples). Draws of a target share rows that count as different ones, so the intervals are somewhat \
too narrow.
- **less calibrated**: cells in which the calibration error is more than {CALIBRATION_MARGIN:g} points higher."""

TEXTS = {
    "train": "Unlabelled text of the target: other rows than those that are scored.",
    "test": "Unlabelled text of the target: the rows that are scored (transductive).",
}


def studies_part(studies: Sequence[StudyResults], plots: Mapping[str, str]) -> list[str]:
    """Return the paragraphs on all studies that have records; `plots` are names of files by study."""
    if not studies:
        return []
    parts = [f"## {HEADING}", INTRODUCTION]
    for study in studies:
        parts += _study(study, plots.get(study.name))
    return parts


def _study(study: StudyResults, plot: str | None) -> list[str]:
    parts = [f"### {study.title}"]
    if plot:
        parts.append(f"![Accuracy by prevalence of the positive class]({plot})")
    if not study.variants:
        parts.append(f"No record of its present rows yet: resume with `multidomain reproduce {study.name}`.")
    for variant in study.variants:
        if len(study.variants) > 1:
            parts.append(f"#### Unlabelled {variant.target_text} text")
        if variant.target_text:
            parts.append(TEXTS[variant.target_text])
        parts += _priors(variant) if study.labels is None else _labels(variant, study.labels)
        parts += _lacking(variant)
    left_out = dropped(study.records)
    return [*parts, "\n".join(left_out)] if left_out else parts


def _priors(variant: StudyVariant) -> list[str]:
    parts = ["Mean scores, and accuracy by prevalence:", grid_markdown(scores_grid(variant))]
    if variant.against_baseline:
        parts += [f"Differences to {BASELINE}:", grid_markdown(comparison_grid(variant.against_baseline, MARGIN))]
    if variant.self_training:
        said = (
            f"{OURS} minus the same without self-training; *below* are here all cells in which the 95 % interval is "
            "below zero:"
        )
        parts += [said, grid_markdown(comparison_grid([variant.self_training], 0.0))]
    ours = variant.system(OURS)
    if ours:
        against = variant.against(ours)
        brackets = f" (difference to {BASELINE})" if against else ""
        said = f"Accuracy of {OURS} by target and prevalence{brackets}:"
        parts += [said, grid_markdown(cells_grid(ours, against))]
    return parts


def _labels(variant: StudyVariant, name: str) -> list[str]:
    if variant.target_text is None:
        said = (
            "Every domain has so many labels, half of each class; other rows are unlabelled text, and there is no dev "
            "set. Accuracy by number of labels per domain; mean over domains and draws:"
        )
    else:
        said = "Accuracy by number of labels of the target; mean over targets, prevalences and draws:"
    parts = [said, grid_markdown(labels_grid(variant, name))]
    shares = gap_grid(variant) if variant.target_text else None
    if shares:
        said = (
            "Share of the gap between no label and all of them that so many labels close (95 % interval by bootstrap "
            "over draws and targets):"
        )
        parts += [said, grid_markdown(shares)]
    if variant.with_all_labels:
        said = (
            f"Labels in every domain, and class priors that differ: {OURS} minus {BASELINE} where the target has all "
            "labels of its text:"
        )
        parts += [said, grid_markdown(comparison_grid([variant.with_all_labels], MARGIN))]
    return parts


def _lacking(variant: StudyVariant) -> list[str]:
    """Name the systems with missing runs; their figures are over those that they have."""
    begun = [
        f"{system.row.name} ({len(system.records)} of {system.wanted} runs)"
        for system in variant.systems
        if not system.is_complete
    ]
    lines = [f"- incomplete, with means over the runs so far: {'; '.join(begun)}"] if begun else []
    if variant.missing:
        lines.append(f"- no run yet: {', '.join(variant.missing)}")
    return ["\n".join(f"{line}." for line in lines)] if lines else []
