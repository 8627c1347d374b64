"""Accuracy by coverage: what is gained by leaving out predictions of low confidence."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from multidomain.report.model.charts import coverage_chart
from multidomain.report.model.folder import Answers
from multidomain.report.model.markup import Html, figure, joined, paragraphs, percent, table, tag
from multidomain.report.model.scores import Interval, wilson

COVERAGES = (1.0, 0.9, 0.8, 0.7, 0.5)
_DRAWN = tuple(whole / 100 for whole in range(10, 101))  # of fewer rows the accuracy says little
_MOST_DIGITS = 6  # of a confidence in a table of predictions


@dataclass(frozen=True)
class Covered:
    """Predictions of at least some confidence.

    Attributes
    ----------
    threshold
        The lowest confidence.
    coverage
        Their share of all predictions.
    """

    threshold: float
    coverage: float
    rows: int
    accuracy: Interval


def covered(answers: Answers, coverage: float) -> Covered:
    """Return the most confident predictions, at least a share of all of them.

    Predictions of equal confidence stay together, so it may be more. The figures are those that ``multidomain predict
    --abstain`` would have with the threshold.
    """
    n = max(1, math.ceil(coverage * len(answers) - 1e-9))
    threshold = 0.0 if n == len(answers) else _short(float(np.sort(answers.confidence)[-n]), answers.confidence)
    correct = answers.correct[answers.confidence >= threshold]
    rows = len(correct)
    return Covered(threshold, rows / len(answers), rows, wilson(float(correct.mean()), rows))


def _short(threshold: float, confidence: np.ndarray) -> float:
    """Round a threshold down to the fewest digits that leave out the same predictions."""
    wanted = int((confidence >= threshold).sum())
    for digits in range(2, _MOST_DIGITS + 1):
        short = math.floor(threshold * 10**digits) / 10**digits
        if int((confidence >= short).sum()) == wanted:
            break
    return short


def coverage_part(answers: Answers) -> Html:
    """Return the accuracy of the most confident predictions, as a curve and as a table with thresholds."""
    shown = [covered(answers, coverage) for coverage in COVERAGES]
    every, some = shown[0].accuracy.share, shown[2]
    told = f"Accuracy by coverage: {percent(every)} of all predictions are correct, and {percent(some.accuracy.share)} "
    return joined(
        [
            paragraphs(
                joined(
                    [
                        f"Of the most confident {percent(some.coverage, 0)} of the predictions, "
                        f"{percent(some.accuracy.share)} are correct, of all {percent(every)}. ",
                        tag("code", "multidomain predict --abstain CONFIDENCE"),
                        " leaves out those below a confidence:",
                    ]
                )
            ),
            tag(
                "div",
                figure(
                    coverage_chart(
                        [(one.coverage, one.accuracy.share) for one in (covered(answers, c) for c in _DRAWN)],
                        f"{told}of the most confident {percent(some.coverage, 0)}.",
                    ),
                    "Accuracy of the most confident predictions, by their share of all test rows.",
                ),
                class_="charts",
            ),
            table(
                "Accuracy by coverage",
                ["coverage", "confidence at least", "predictions", "accuracy", "95 % interval"],
                [_line(one) for one in shown],
                "lrrrr",
                class_="narrow",
            ),
        ]
    )


def _line(one: Covered) -> list[str]:
    interval = f"{percent(one.accuracy.low)} – {percent(one.accuracy.high)}"
    return [percent(one.coverage), f"{one.threshold:g}", f"{one.rows:,}", percent(one.accuracy.share), interval]
