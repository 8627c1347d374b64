"""Automatic choice of the method: several are cross-validated, and the best is taken."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from multidomain.data.corpus import Corpus
from multidomain.data.prior_shift import hidden_domains, shift_hidden_priors
from multidomain.data.splits import Split, cross_validation
from multidomain.devices import Device
from multidomain.errors import ConfigError, DataError, counted
from multidomain.features.base import Documents
from multidomain.methods.registry import METHODS, RECOMMENDED, method_entry
from multidomain.metrics import Metric, rows_of_each
from multidomain.runs.choice import AutoChoice, Candidate
from multidomain.runs.config import AutoSettings, merged
from multidomain.runs.fold_tasks import Elsewhere, try_on_engine
from multidomain.runs.folds import try_in_turn
from multidomain.training.callbacks import Callback
from multidomain.training.settings import RunSettings, checked_features, with_method
from multidomain.training.train import fingerprints, resolved_device, suited_device

_FEWEST_ROWS = 60  # with fewer, the comparison is too noisy
_EARLIER_METHODS = ("fa-lr", RECOMMENDED, "man-nll")  # default of choices that may still be resumed


def choose_method(
    corpus: Corpus,
    split: Split,
    settings: RunSettings,
    how: AutoSettings,
    *,
    device: Device = "auto",
    callbacks: Sequence[Callback] = (),
    documents: Documents | None = None,
    elsewhere: Elsewhere | None = None,
    on_candidate: Callable[[Candidate], None] = lambda candidate: None,
) -> AutoChoice:
    """Return the method with the best cross-validated score by the metric of the run; ties go to the earlier one.

    The labelled training and dev rows are split into folds; test rows are never used. If the corpus has domains
    without labels, the labels of each labelled domain are hidden in one of the folds, its class prior is shifted there
    (see `shift_hidden_priors`), and the score there is weighted by the number of unlabelled domains. Linear methods
    read the n-grams of the recommended method, unless they or the run ask for others.

    Parameters
    ----------
    settings
        Of the run that the method is for; their method is left open.
    documents
        Those of the corpus, if the run that follows shares their analysis.
    elsewhere
        An engine that trains the folds; by default they are trained here, one after the other.
    on_candidate
        Called with each candidate as it finishes.
    """
    folds = cross_validation(corpus, split, how.folds, settings.training.seed)
    rows = np.concatenate([fold.test for fold in folds])
    if len(rows) < _FEWEST_ROWS:
        raise ConfigError(
            f"There are {counted(len(rows), 'labelled row')} to compare methods on; with fewer than {_FEWEST_ROWS} the "
            "comparison is too noisy.",
            f"Name a method, such as {{method={RECOMMENDED}}}.",
        )
    folds = shift_hidden_priors(corpus, split, folds, settings.training.seed)
    candidates = [
        Candidate(name, None, None, 0.0, settings.objective.metric, needs=needed)
        for name in how.methods
        if (needed := METHODS.needed_for(name))
    ]
    for missing in candidates:
        on_candidate(missing)
    names = [name for name in how.methods if not METHODS.needed_for(name)]
    added = [_added_features(with_method(settings, name, {})) for name in names]
    of_each = [_with_features(settings, name, features) for name, features in zip(names, added, strict=True)]
    for own in of_each:  # fail before any method is tried
        own.check_compact()
        resolved_device(suited_device(own, device), own)
    of_each = [_not_compact(own) for own in of_each]
    if elsewhere is None:
        documents = Documents(corpus.documents) if documents is None else documents
        tried = try_in_turn(corpus, folds, of_each, 60 * how.budget, device, callbacks, documents)
    else:
        tried = try_on_engine(elsewhere, of_each, len(folds), 60 * how.budget)
    metric, divergence = settings.objective.metric, None
    try:
        for one in tried:
            score = error = None
            if one.predicted is not None:
                score, error = _cross_validated(metric, corpus, folds, split, one.predicted)
            divergence = divergence or one.divergence
            name, diverged = one.settings.entry.name, one.divergence is not None
            candidates.append(Candidate(name, score, error, round(one.seconds, 1), metric, diverged))
            on_candidate(candidates[-1])
    except DataError as fault:
        raise ConfigError(
            f"The rows cannot be cross-validated in {how.folds} folds: {fault}",
            f"Or name a method, such as {{method={RECOMMENDED}}}.",
        ) from None
    if divergence and all(candidate.accuracy is None for candidate in candidates):
        raise divergence
    compared = [candidate for candidate in candidates if not candidate.needs]
    best = max(range(len(compared)), key=lambda i: compared[i].accuracy or 0)
    rule = f"{how.folds} folds of {counted(len(rows), 'labelled row')}{_about_hidden(corpus, split, folds, rows)}"
    return AutoChoice(names[best], tuple(candidates), rule, _identities(corpus, split, settings, how)[0], added[best])


def chosen_settings(settings: RunSettings, choice: AutoChoice) -> RunSettings:
    """Return the settings of a run with the chosen method and the features that it was compared with."""
    return _with_features(settings, choice.method, choice.features)


def _with_features(settings: RunSettings, method: str, features: Mapping[str, Mapping[str, Any]]) -> RunSettings:
    both = checked_features(merged(settings.features, features))
    return with_method(settings, method, {}).model_copy(update={"features": both})


def _not_compact(settings: RunSettings) -> RunSettings:
    return settings.model_copy(update={"objective": settings.objective.model_copy(update={"compact": None})})


def _added_features(settings: RunSettings) -> dict[str, dict[str, Any]]:
    """Return the n-gram settings of the recommended method that neither the method nor the run states.

    Fewer n-grams would put a linear method at a disadvantage. Networks have the paper's; and a method that learns from
    unlabelled text may need memory for each pair of n-grams.
    """
    best, own = method_entry(RECOMMENDED).requirements(), settings.requirements
    if best.featurizer is None or own.featurizer != best.featurizer or own.in_epochs or own.unlabelled_text:
        return {}
    given = settings.features.get(best.featurizer, {})
    added = {name: v for name, v in best.features.items() if name not in own.features and given.get(name) is None}
    return RunSettings(features={best.featurizer: added}).model_dump(mode="json")["features"]


def _about_hidden(corpus: Corpus, split: Split, folds: Sequence[Split], rows: np.ndarray) -> str:
    """Say in how many domains labels were hidden and class priors shifted; `rows` are all that could be scored."""
    hidden = {name for fold in folds for name in hidden_domains(corpus, split, fold)}
    if not hidden:
        return ""
    shifted = set(corpus.domains[np.setdiff1d(rows, np.concatenate([fold.test for fold in folds]))])
    about = f", with the class prior shifted in {len(shifted)} of {counted(len(hidden), 'domain')}" if shifted else ""
    return f", each domain's labels hidden in one{about}"


def is_choice_for(choice: AutoChoice, corpus: Corpus, split: Split, settings: RunSettings, how: AutoSettings) -> bool:
    """Tell whether a choice was made for the same data, split and settings."""
    return choice.fingerprint in _identities(corpus, split, settings, how)


def _identities(corpus: Corpus, split: Split, settings: RunSettings, how: AutoSettings) -> list[str]:
    """Return what a choice is for, as it is known now and as it was with earlier setting names and default methods."""
    earlier = [] if "methods" in how.model_fields_set else [how.model_copy(update={"methods": _EARLIER_METHODS})]
    return [
        hashlib.sha256((fingerprint + one.model_dump_json()).encode()).hexdigest()
        for one in (how, *earlier)
        for fingerprint in fingerprints(corpus, split, with_method(settings, one.methods[0], {}))
    ]


def _cross_validated(
    metric: Metric, corpus: Corpus, folds: Sequence[Split], split: Split, predicted: Sequence[np.ndarray]
) -> tuple[float, float]:
    """Return the score by a metric, and its standard error.

    Labelled and unlabelled domains are weighted by their number in the corpus, measured with labels visible and
    hidden, respectively. The worst domain is the worst of both kinds.
    """
    shown: dict[str, list[np.ndarray]] = {}
    hidden: dict[str, list[np.ndarray]] = {}
    for fold, of_fold in zip(folds, predicted, strict=True):
        domains, both = corpus.domains[fold.test], np.stack([corpus.labels[fold.test].astype(str), of_fold])
        had_labels = set(fold.labelled_domains(corpus))
        for name, here in rows_of_each(domains).items():
            (shown if name in had_labels else hidden).setdefault(name, []).append(both[:, here])
    n_with = len(split.labelled_domains(corpus))
    parts = [(measured, count) for measured, count in ((shown, n_with), (hidden, len(corpus.domain_names) - n_with))]
    parts = [(measured, count) for measured, count in parts if measured and count]
    total = sum(count for _, count in parts)
    scores = []  # of each domain: its weight, score and variance
    for measured, count in parts:
        for of_folds in measured.values():
            scores.append((count / total / len(measured), *_score_of_domain(metric, *np.concatenate(of_folds, axis=1))))
    if metric == "worst-domain":
        _, score, variance = min(scores, key=lambda one: one[1])
        return score, variance**0.5
    return sum(w * score for w, score, _ in scores), sum(w**2 * variance for w, _, variance in scores) ** 0.5


def _score_of_domain(metric: Metric, y: np.ndarray, predicted: np.ndarray) -> tuple[float, float]:
    r"""Return the score in a domain, and its variance.

    Macro-F1 is a mean of ratios, F = sum 2 t / sum s over rows, with t = 1 where label and prediction are the class,
    and s the number of the two that are. To first order a row moves it by (2 t - F s) / (n mean s).
    """
    n = len(y)
    if metric != "macro-f1":
        p = float((y == predicted).mean())
        return p, p * (1 - p) / n
    moves, scores = np.zeros(n), []
    for c in np.union1d(y, predicted):
        t, s = (y == c) & (predicted == c), (y == c).astype(float) + (predicted == c)
        scores.append(2 * t.sum() / s.sum())
        moves += (2 * t - scores[-1] * s) / s.mean()
    return float(np.mean(scores)), float(np.mean((moves / len(scores)) ** 2)) / n
