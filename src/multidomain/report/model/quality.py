"""Model quality: accuracy by domain, confusion matrices, and the most confident errors."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from multidomain.errors import counted
from multidomain.evaluation.evaluate import DomainScore
from multidomain.report.model.charts import Measured, interval_chart, mark_symbols
from multidomain.report.model.drawing import legend
from multidomain.report.model.folder import Answers, ModelFolder
from multidomain.report.model.markup import Html, figure, folded, joined, paragraphs, percent, table, tag
from multidomain.report.model.scores import confusion, wilson
from multidomain.runs.predictions import ANSWERS

MISTAKES = 5  # of each domain
LETTERS = 300  # of a text
_OPENED = 8  # up to so many domains are shown expanded
_WORDS = {
    "labels": "Whether training had labels of the domain.",
    "95 % interval": "Sampling error of the test rows (Wilson). It does not cover variation between seeds.",
    "macro-F1": "Unweighted mean of the F1 of the classes, so a rare class counts as much as a frequent one.",
    "shared": "Accuracy when the model is not given the domain and predicts from its shared part alone.",
    "majority": "Accuracy of always predicting the most frequent class of the domain's training rows, or of all "
    "training rows where the domain has no labels.",
    "mean of domains": "Unweighted: every domain counts the same, whatever its size.",
}
_NO_LABELS = "Not measured: no test row has a label."


def accuracy_section(run: ModelFolder) -> Html:
    """Return a chart and a table of the scores of each domain."""
    test = run.metrics.result.test
    if test is None:
        return paragraphs(_NO_LABELS)
    measured = [
        Measured(
            score.domain + ("" if score.had_labels else " · no labels"),
            wilson(score.accuracy, score.rows),
            score.shared_accuracy,
            score.majority_accuracy,
        )
        for score in test.domains
    ]
    shown = ", ".join(f"{one.name} {percent(one.interval.share)}" for one in measured)
    marks = mark_symbols()
    entries = [(marks["accuracy"], "accuracy and 95 % interval")]
    if any(one.shared is not None for one in measured):
        entries.append((marks["shared"], "shared part alone"))
    if any(one.majority is not None for one in measured):
        entries.append((marks["majority"], "most frequent class"))
    foot = ["mean of domains", "", f"{sum(s.rows for s in test.domains):,}", percent(test.accuracy), ""]
    foot += [percent(test.macro_f1), _mean(s.shared_accuracy for s in test.domains)]
    foot += [_mean(s.majority_accuracy for s in test.domains)]
    return joined(
        [
            tag(
                "div",
                figure(
                    interval_chart(measured, f"Accuracy by domain: {shown}."),
                    "Accuracy on the test rows.",
                    legend(entries),
                ),
                tag("dl", *(joined([tag("dt", word), tag("dd", meaning)]) for word, meaning in _WORDS.items())),
                class_="beside",
            ),
            table(
                "Accuracy by domain, on test rows",
                ["domain", "labels", "rows", "accuracy", "95 % interval", "macro-F1", "shared", "majority"],
                [_line(score) for score in test.domains],
                "llrrrrrr",
                foot=foot,
            ),
        ]
    )


def _line(score: DomainScore) -> list[str]:
    interval = wilson(score.accuracy, score.rows)
    return [
        score.domain,
        "yes" if score.had_labels else "none",
        f"{score.rows:,}",
        percent(score.accuracy),
        f"{percent(interval.low)} – {percent(interval.high)}",
        percent(score.macro_f1),
        percent(score.shared_accuracy),
        percent(score.majority_accuracy),
    ]


def _mean(shares: Iterable[float | None]) -> str:
    known = [share for share in shares if share is not None]
    return percent(float(np.mean(known)) if known else None)


def confusion_section(run: ModelFolder) -> Html:
    """Return the confusion matrix over all rows and of each domain."""
    answers = run.answers
    if not len(answers):
        return paragraphs(_NO_LABELS)
    n = len(run.classes)
    whole = confusion(answers.labels, answers.answers, n)
    domains = [score.domain for score in run.metrics.result.test.domains] if run.metrics.result.test else []
    matrices = [
        _matrix(f"{name}: {counted(len(of), 'row')}", confusion(of.labels, of.answers, n), run.classes)
        for name in domains
        for of in [answers.of(name)]
    ]
    mistaken = whole - np.diag(np.diag(whole))
    said = "There are no errors."
    if mistaken.any():
        label, answer = np.unravel_index(mistaken.argmax(), whole.shape)
        said = (
            f"The most frequent error is to predict {run.classes[answer]} where the label is {run.classes[label]}: "
            f"{whole[label, answer]:,} of {whole[label].sum():,} rows of that class."
        )
    return joined(
        [
            paragraphs(
                f"Rows are labels, columns predictions; the deeper the colour, the larger the share of the row. {said}"
            ),
            _matrix(f"All domains: {counted(len(answers), 'row')}", whole, run.classes),
            folded("By domain", tag("div", *matrices, class_="matrices"), opened=len(domains) <= _OPENED)
            if len(domains) > 1
            else "",
        ]
    )


def _matrix(caption: str, counts: np.ndarray, classes: tuple[str, ...]) -> Html:
    rows = []
    for label, row in enumerate(counts):
        total = max(1, int(row.sum()))
        cells = []
        for answer, count in enumerate(row):
            share = int(count) / total
            kind = "right" if label == answer else "wrong"
            shown = joined([f"{int(count):,} ", tag("small", percent(share, 0))])
            cells.append(tag("td", shown, class_=f"number {kind}", style=f"--share:{share:.2f}"))
        rows.append(tag("tr", tag("th", classes[label], scope="row"), *cells))
    heads = [tag("th", name, scope="col", class_="number") for name in classes]
    corner = tag("th", "label ↓ predicted →", scope="col", class_="corner")
    whole = tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", corner, *heads)),
        tag("tbody", *rows),
        class_="confusion",
    )
    return tag("div", whole, class_="scroll", role="region", tabindex=0, aria_label=f"Confusion matrix, {caption}")


def mistakes_section(run: ModelFolder) -> Html:
    """Return the most confident errors of each domain, with their texts."""
    answers, test = run.answers, run.metrics.result.test
    if test is None:
        return paragraphs(_NO_LABELS)
    parts = []
    for score in test.domains:
        wrong = answers.of(score.domain)
        wrong = wrong.where(~wrong.correct)
        surest = wrong.where(np.argsort(-wrong.confidence, kind="stable")[:MISTAKES])
        summary = f"{score.domain}: {counted(len(wrong), 'error')} in {counted(score.rows, 'row')}"
        content = tag("ol", *_mistakes(run, surest), class_="mistakes") if len(wrong) else paragraphs("No errors.")
        parts.append(folded(summary, content, opened=len(test.domains) <= _OPENED))
    has_texts = any(text is not None for text in answers.texts)
    return joined(
        [
            paragraphs(
                f"The wrong predictions with the highest confidence, at most {MISTAKES} per domain. Some of them are "
                f"label errors: read them before you trust a figure. Line numbers refer to {ANSWERS}.",
                "" if has_texts else "The model was trained on vectors, so there are no texts to show.",
            ),
            *parts,
        ]
    )


def _mistakes(run: ModelFolder, of: Answers) -> list[Html]:
    items = []
    for text, label, answer, sure, line in zip(of.texts, of.labels, of.answers, of.confidence, of.lines, strict=True):
        told = [tag("b", run.classes[label]), " predicted as ", tag("b", run.classes[answer])]
        told += [f", confidence {percent(sure)} · line {line}"]
        shown = "" if text is None else tag("blockquote", shortened(text), dir="auto")
        items.append(tag("li", shown, tag("p", *told)))
    return items


def shortened(text: str) -> str:
    """Truncate a text, on one line, at a word boundary where there is one."""
    words = " ".join(text.split())
    if len(words) <= LETTERS:
        return words
    start = words[:LETTERS]
    whole_words, blank, _ = start.rpartition(" ")
    return f"{whole_words if blank and len(whole_words) > LETTERS // 2 else start} …"
