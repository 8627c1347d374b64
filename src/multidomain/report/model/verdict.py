"""The figures of a model, summed up in plain words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from multidomain.errors import counted
from multidomain.evaluation.evaluate import DomainScore, Evaluation
from multidomain.report.model.folder import ModelFolder
from multidomain.report.model.markup import listed, percent, points
from multidomain.report.model.scores import wilson


def verdict(run: ModelFolder) -> list[str]:
    """Return sentences; the first states the accuracy."""
    test = run.metrics.result.test
    if test is None:
        return [
            f"The accuracy of {run.model.method_name} is unknown: no test row of {run.metrics.data.name} has a label."
        ]
    scores = test.domains
    said = [_mean(run, test)]
    if len(scores) > 1:
        said.append(_best_and_worst(scores))
    said += [_without_labels(scores), _not_scored(run, scores)]
    said.append(_against_shared(scores))
    said.append(_against_majority(scores))
    said.append(_sureness(run))
    return [sentence for sentence in said if sentence]


def _mean(run: ModelFolder, test: Evaluation) -> str:
    scores, name, method = test.domains, run.metrics.data.name, run.model.method_name
    rows = counted(sum(score.rows for score in scores), "test text")
    if len(scores) == 1:
        return f"{method} reaches {percent(test.accuracy)} accuracy on {rows} of {name}."
    domains = "domains" if len(scores) == len(run.domains) else "scored domains"
    return (
        f"{method} reaches {percent(test.accuracy)} accuracy, the mean over the {len(scores)} {domains} of {name}, "
        f"measured on {rows} not seen in training."
    )


def _best_and_worst(scores: Sequence[DomainScore]) -> str:
    best, worst = max(scores, key=lambda s: s.accuracy), min(scores, key=lambda s: s.accuracy)
    if best.accuracy == worst.accuracy:
        return "It is equally good in all of them."
    said = f"It is best in {best.domain} ({percent(best.accuracy)}) and worst in {worst.domain}"
    said += f" ({percent(worst.accuracy)})"
    near = wilson(best.accuracy, best.rows).holds(worst.accuracy) and wilson(worst.accuracy, worst.rows).holds(
        best.accuracy
    )
    return f"{said}, a difference within the error of so few rows." if near else f"{said}."


def _without_labels(scores: Sequence[DomainScore]) -> str:
    others = [score for score in scores if not score.had_labels]
    if not others:
        return ""
    with_labels = [score.accuracy for score in scores if score.had_labels]
    names, reached = listed([score.domain for score in others]), _mean_of([score.accuracy for score in others])
    said = f"Training had no labels of {names}, where accuracy is {percent(reached)}"
    said += " on average" if len(others) > 1 else ""
    return said + (f"; in domains with labels it is {percent(_mean_of(with_labels))}." if with_labels else ".")


def _not_scored(run: ModelFolder, scores: Sequence[DomainScore]) -> str:
    missing = [name for name in run.domains if name not in {score.domain for score in scores}]
    return f"Accuracy in {listed(missing)} is unknown: no test row there has a label." if missing else ""


def _against_shared(scores: Sequence[DomainScore]) -> str:
    """Compare in labelled domains only: without labels a domain has no private part."""
    pairs = [(s.accuracy, s.shared_accuracy) for s in scores if s.had_labels and s.shared_accuracy is not None]
    if not pairs:
        if any(score.shared_accuracy is None for score in scores):
            return "The model has no shared part, so it cannot predict for a domain that was not in training."
        return ""
    shared = _mean_of([alone for _, alone in pairs])
    gain = _mean_of([full for full, _ in pairs]) - shared
    where = "" if all(score.had_labels for score in scores) else " in domains with labels"
    if all(full == alone for full, alone in pairs):
        return "Without the domain, from its shared part alone, it is equally accurate."
    what = "add" if gain > 0 else "cost"
    worth = f"the private parts {what} {points(gain)}" if abs(gain) >= 0.0005 else "on average the same"
    said = f"Without the domain, from its shared part alone, it reaches {percent(shared)}{where}"
    return f"{said}: {worth}."


def _against_majority(scores: Sequence[DomainScore]) -> str:
    known = [score for score in scores if score.majority_accuracy is not None]
    if not known:
        return ""
    reached = _mean_of([score.majority_accuracy or 0.0 for score in known])
    said = f"The majority-class baseline reaches {percent(reached)}"
    close = [s.domain for s in known if wilson(s.accuracy, s.rows).low <= (s.majority_accuracy or 0.0)]
    if not close:
        return f"{said}, and every domain is clearly above that."
    if len(close) == len(scores):
        return f"{said}, and no domain is clearly above that: do not rely on this model."
    return f"{said}; {listed(close)} {'is' if len(close) == 1 else 'are'} not clearly above that."


def _sureness(run: ModelFolder) -> str:
    answers = run.answers
    confidence, right = float(answers.confidence.mean()), wilson(float(answers.correct.mean()), len(answers))
    shown = f"mean confidence is {percent(confidence)}, accuracy over all test rows {percent(right.share)}"
    if right.holds(confidence):
        return f"It is well calibrated on average: {shown}."
    if confidence > right.share:
        return f"It is overconfident: {shown}."
    return f"It is underconfident: {shown}."


def _mean_of(values: Sequence[float]) -> float:
    return float(np.mean(values))
