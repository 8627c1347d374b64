"""Calibration: whether the model's confidence matches its accuracy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from multidomain.errors import counted
from multidomain.metrics import CALIBRATION_BINS, equal_mass_bins
from multidomain.report.model.charts import BinDot, histogram, reliability_chart
from multidomain.report.model.coverage import coverage_part
from multidomain.report.model.folder import Answers, ModelFolder
from multidomain.report.model.markup import Html, figure, folded, joined, paragraphs, percent, points, table, tag
from multidomain.report.model.scores import wilson

BINS = 10  # of the diagram


@dataclass(frozen=True)
class Calibration:
    """Predictions binned by confidence.

    Attributes
    ----------
    bins
        Of equal width, for the diagram.
    error
        Expected calibration error.
    by_chance
        Roughly the error that a perfectly calibrated model would show on as many rows.
    """

    bins: tuple[BinDot, ...]
    error: float
    by_chance: float
    confidence: float
    accuracy: float


def calibration(answers: Answers) -> Calibration:
    r"""Bin predictions by confidence, for the diagram in bins of equal width, without their lower edge.

    The expected calibration error is taken over bins of equal mass (see `multidomain.metrics.calibration_error`):

    .. math:: \mathrm{ECE} = \sum_b \frac{n_b}{n} \left| \mathrm{acc}_b - \mathrm{conf}_b \right|

    In a bin of n predictions, each correct with its stated probability p, accuracy and confidence differ by
    :math:`\sqrt{2 \sum p (1 - p) / \pi} / n` on average (normal approximation).
    """
    edges = np.arange(BINS + 1) / BINS
    number = np.clip(np.searchsorted(edges, answers.confidence) - 1, 0, BINS - 1)
    bins, error, by_chance = [], 0.0, 0.0
    for b in np.unique(number):
        here = number == b
        n, sure, right = int(here.sum()), answers.confidence[here], float(answers.correct[here].mean())
        bins.append(BinDot(float(edges[b]), float(edges[b + 1]), float(sure.mean()), wilson(right, n), n))
    for rows in equal_mass_bins(answers.confidence):
        sure = answers.confidence[rows]
        error += abs(float(answers.correct[rows].sum()) - float(sure.sum())) / len(answers)
        by_chance += math.sqrt(2 / math.pi * float((sure * (1 - sure)).sum())) / len(answers)
    return Calibration(tuple(bins), error, by_chance, float(answers.confidence.mean()), float(answers.correct.mean()))


def calibration_section(run: ModelFolder) -> Html:
    """Return the reliability diagram, the confidence histogram, calibration by domain, and what abstaining gains."""
    answers = run.answers
    if not len(answers):
        return paragraphs("Not measured: no test row has a label.")
    found = calibration(answers)
    gap = found.confidence - found.accuracy
    direction = "above" if gap > 0 else "below"
    start = min(one.low for one in found.bins)
    shown = ", ".join(
        f"confidence {percent(b.confidence, 0)}, accuracy {percent(b.accuracy.share, 0)}" for b in found.bins
    )
    return joined(
        [
            paragraphs(
                joined(
                    [
                        "The expected calibration error is ",
                        tag("strong", percent(found.error)),
                        f". A perfectly calibrated model would show about {percent(found.by_chance)} on this many "
                        f"rows, by chance alone. Over all {counted(len(answers), 'test row')}, mean confidence is "
                        f"{points(gap)} {direction} accuracy ({percent(found.confidence)} against "
                        f"{percent(found.accuracy)}).",
                    ]
                )
            ),
            tag(
                "div",
                figure(
                    reliability_chart(found.bins, start, f"Reliability diagram. Bins: {shown}."),
                    "Accuracy by confidence, with 95 % intervals. On the dashed line the model is perfectly "
                    "calibrated; below it, overconfident; above it, underconfident.",
                ),
                figure(
                    histogram(found.bins, start, f"Histogram of confidence over {len(found.bins)} bins."),
                    "Number of predictions by confidence, the probability of the predicted class.",
                ),
                class_="charts",
            ),
            table(
                "Confidence and accuracy by domain",
                ["domain", "test rows", "confidence", "accuracy", "difference", "calibration error"],
                [_line(name, calibration(answers.of(name)), len(answers.of(name))) for name in _domains(answers)],
                "lrrrrr",
                foot=_line("all rows", found, len(answers)),
            ),
            coverage_part(answers),
            folded(
                "Definition, and the bins",
                paragraphs(
                    f"Predictions are sorted by confidence into {CALIBRATION_BINS} bins of equally many. The expected "
                    "calibration error is the sum over bins of (fraction of the predictions in the bin) × |accuracy − "
                    "mean confidence|. With few rows in a bin it is above 0 even for a perfectly calibrated model, so "
                    f"only compare models on the same rows. The diagram has {BINS} bins of equal width."
                ),
                table(
                    "Bins of confidence",
                    ["confidence", "predictions", "mean confidence", "accuracy", "95 % interval"],
                    [_bin_line(one) for one in found.bins],
                    "lrrrr",
                ),
            ),
        ]
    )


def _domains(answers: Answers) -> list[str]:
    return list(dict.fromkeys(answers.domains))


def _line(name: str, of: Calibration, rows: int) -> list[str]:
    gap = f"{100 * (of.confidence - of.accuracy):+.1f}".replace("-", "−")
    return [name, f"{rows:,}", percent(of.confidence), percent(of.accuracy), gap, percent(of.error)]


def _bin_line(one: BinDot) -> list[str]:
    interval = f"{percent(one.accuracy.low)} – {percent(one.accuracy.high)}"
    name = f"{percent(one.low, 0)} – {percent(one.high, 0)}"
    return [name, f"{one.rows:,}", percent(one.confidence), percent(one.accuracy.share), interval]
