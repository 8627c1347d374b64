"""Tables of results, models and methods for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Column, Table

from multidomain.cli.data_tables import add_rest, shown_domains
from multidomain.data.named.registry import CORPORA
from multidomain.evaluation.evaluate import Evaluation
from multidomain.evaluation.invariance import Invariance
from multidomain.experiments.recipes import rows_of
from multidomain.methods.registry import MethodEntry, installed_methods
from multidomain.model.model import Model
from multidomain.runs.unlabelled import UnlabelledDomain
from multidomain.tuning.folder import best_of
from multidomain.tuning.trial import TrialRecord, shown_value

_MOST_NAMES = 50
_MOST_VERDICTS = 16
_MOST_UNLABELLED = 30  # domains; of more those with most doubts are shown

_SCORES = {
    "accuracy": "accuracy",
    "macro_f1": "macro-F1",
    "shared_accuracy": "shared",
    "lr_accuracy": "plain LR",
    "majority_accuracy": "majority",
}


def evaluation_table(evaluation: Evaluation, title: str) -> Table:
    """Accuracy and macro-F1 by domain, and their means."""
    shown = {name: heading for name, heading in _SCORES.items() if evaluation.mean(name) is not None}
    table = Table("domain", "labels", title=title, title_justify="left")
    for heading in ("rows", *shown.values()):
        table.add_column(heading, justify="right")
    domains = evaluation.domains
    kept = shown_domains([score.rows for score in domains], [1 - score.accuracy for score in domains])
    for score in (domains[i] for i in kept):
        had = "yes" if score.had_labels else "none"
        table.add_row(score.domain, had, f"{score.rows:,}", *(_percent(getattr(score, name)) for name in shown))
    add_rest(table, len(kept), len(domains), by="most errors", whole="'multidomain evaluate --json' prints all")
    table.add_section()
    total = sum(score.rows for score in evaluation.domains)
    table.add_row("mean of domains", "", f"{total:,}", *(_percent(evaluation.mean(n)) for n in shown), style="bold")
    return table


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.2f}"


def unlabelled_table(domains: Sequence[UnlabelledDomain], evaluation: Evaluation | None = None) -> Table:
    """Class priors and predicted shares of domains with few labels or none; after an evaluation, the true ones too."""
    scores = {score.domain: score for score in (evaluation.domains if evaluation else ())}
    table = Table("domain", "class", title="domains without labels in training, or with few", title_justify="left")
    for heading in ("prior", "95 % interval", "predicted", *(["true"] if scores else [])):
        table.add_column(heading, justify="right")
    doubtful = sorted(domains, key=lambda one: -len(one.doubts)) if len(domains) > _MOST_UNLABELLED else domains
    for one in doubtful[:_MOST_UNLABELLED]:
        true = (scores[one.domain].label_shares or {}) if scores else {}
        for number, share in enumerate(one.shares):
            table.add_row("" if number else one.domain, *share, *([f"{true[share.name]:.0%}"] if true else []))
    if len(domains) > _MOST_UNLABELLED:
        table.add_row(f"and {len(domains) - _MOST_UNLABELLED:,} more")
    return table


def verdict_lines(domains: Sequence[UnlabelledDomain]) -> list[str]:
    """Say of domains with few labels or none whether to trust the predictions."""
    lines = [one.verdict for one in domains[:_MOST_VERDICTS]]
    left = len(domains) - len(lines)
    return lines + ([f"({left:,} more domains are not listed.)"] if left else [])


def invariance_lines(before: Invariance | None, after: Invariance | None) -> list[str]:
    """Describe how well a probe predicts the domain from the shared features, before and after training."""
    if after is None:
        return ["invariance: not measured (needs 8 held-out texts in each of two domains)"]
    lines = [
        f"invariance: at least {after.nats:.3f} nats apart (0: indistinguishable, {after.most:.3f}: fully "
        f"separable); domain probe accuracy {after.accuracy:.1%}, chance {after.chance:.1%}"
    ]
    if before is not None:
        lines.append(f"            before training: {before.nats:.3f} nats, accuracy {before.accuracy:.1%}")
    return lines


def model_table(model: Model, title: str) -> Table:
    """The facts of a saved model."""
    task = model.method.task
    labelled = set(model.labelled_domains)
    unlabelled = [name for name in task.domains if name not in labelled]
    table = Table("", "", title=title, title_justify="left", show_header=False)
    table.add_row("method", model.method_name)
    table.add_row("classes", ", ".join(map(str, model.classes)))
    table.add_row("domains with labels", _listed(model.labelled_domains))
    table.add_row("domains without", _listed(unlabelled) or "none")
    table.add_row("features", f"{task.n_inputs:,}: {model.features.description}")
    table.add_row("parameters", f"{model.method.n_weights:,}")
    table.add_section()
    for name, value in model.method.settings:
        table.add_row(name, str(value))
    return table


def _listed(names: Sequence[str]) -> str:
    more = [f"and {len(names) - _MOST_NAMES:,} more"] if len(names) > _MOST_NAMES else []
    return ", ".join([*names[:_MOST_NAMES], *more])


def kept_line(best_epoch: int, epochs: int, chosen: Mapping[str, Any], seconds: float) -> str:
    """Describe what was selected on the dev set."""
    kept = f"kept epoch {best_epoch} of {epochs}" if epochs else f"chosen: {chosen or 'nothing to choose'}"
    return f"\n{kept}, {seconds:.0f} s in total"


def corpora_table() -> Table:
    """The corpora known by name."""
    table = Table("name", "what", Column("source", overflow="fold"))
    for corpus in CORPORA.values():
        table.add_row(corpus.name, corpus.description, corpus.source)
    return table


def methods_table() -> Table:
    """The methods known by name."""
    table = Table("name", "what", "rows", "needs and uses", "paper", show_lines=True)
    for entry in installed_methods():
        facts = method_facts(entry)
        needs = [f"labels {facts['labels']}"]
        needs += ["uses unlabelled text"] * facts["uses_unlabelled_text"]
        needs += [f"words {entry.vocabulary}"] * bool(entry.vocabulary)
        table.add_row(entry.name, entry.summary, "\n".join(facts["rows"]), "; ".join(needs), entry.paper)
    return table


def method_facts(entry: MethodEntry) -> dict[str, Any]:
    """What a method is and needs, as JSON can hold it."""
    return {
        "name": entry.name,
        "summary": entry.summary,
        "paper": entry.paper,
        "rows": rows_of(entry.name),
        "labels": entry.labels,
        "uses_unlabelled_text": entry.requirements().unlabelled_text,
        "words": entry.vocabulary or "not needed",
        "settings": entry.settings({}).model_dump(mode="json"),
    }


def trials_table(records: Sequence[TrialRecord], names: Sequence[str], metric: str, title: str) -> Table:
    """The trials of a study by number, with the best one in bold."""
    table = Table("trial", "state", title=title, title_justify="left")
    for heading in (f"dev {metric}", *names, "epochs", "time"):
        table.add_column(heading, justify="right")
    best = best_of(records)
    for one in records:
        values = [shown_value(one.values[name]) if name in one.values else "default" for name in names]
        table.add_row(
            str(one.number),
            one.state,
            _percent(one.score),
            *values,
            str(len(one.dev_scores) or ""),
            f"{one.seconds:.0f} s",
            style="bold" if one is best else None,
        )
    return table
