"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Column, Table

from multidomain.data.checks import CorpusSummary
from multidomain.data.corpus import Corpus
from multidomain.data.named.registry import CORPORA
from multidomain.data.splits import Split
from multidomain.errors import counted, quoted
from multidomain.evaluation.evaluate import Evaluation
from multidomain.evaluation.invariance import Invariance
from multidomain.experiments.recipes import rows_of
from multidomain.methods.registry import METHODS, MethodEntry
from multidomain.model.model import Model
from multidomain.runs.unlabelled import UnlabelledDomain

_CLASSES_SHOWN = 6

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
    for score in evaluation.domains:
        had = "yes" if score.had_labels else "none"
        table.add_row(score.domain, had, f"{score.rows:,}", *(_percent(getattr(score, name)) for name in shown))
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
    for one in domains:
        true = (scores[one.domain].label_shares or {}) if scores else {}
        for number, share in enumerate(one.shares):
            table.add_row("" if number else one.domain, *share, *([f"{true[share.name]:.0%}"] if true else []))
    return table


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
    unlabelled = [name for name in task.domains if name not in model.labelled_domains]
    parameters = sum(p.numel() for p in model.method.parameters())
    table = Table("", "", title=title, title_justify="left", show_header=False)
    table.add_row("method", model.method_name)
    table.add_row("classes", ", ".join(map(str, model.classes)))
    table.add_row("domains with labels", ", ".join(model.labelled_domains))
    table.add_row("domains without", ", ".join(unlabelled) or "none")
    table.add_row("features", f"{task.n_inputs:,}: {model.features.description}")
    table.add_row("parameters", f"{parameters:,}")
    table.add_section()
    for name, value in model.method.settings:
        table.add_row(name, str(value))
    return table


def summary_table(summary: CorpusSummary) -> Table:
    """What a corpus holds, by domain."""
    title = f"{summary.name}: {counted(summary.rows, 'row')}, {counted(len(summary.domains), 'domain')}, "
    table = Table("domain", title=title + counted(len(summary.class_names), "class"), title_justify="left")
    classes = summary.class_names if len(summary.class_names) <= _CLASSES_SHOWN else ()
    for heading in ("rows", "labelled", *map(str, classes), "duplicates", "conflicts"):
        table.add_column(heading, justify="right")
    for name, domain in summary.domains.items():
        numbers = [domain.rows, domain.labelled, *(domain.per_class[c] for c in classes)]
        numbers += [domain.repeated_texts, domain.conflicting_texts]
        table.add_row(name, *(f"{number:,}" for number in numbers))
    if not classes:
        table.caption, table.caption_justify = f"classes: {quoted(summary.class_names)}", "left"
    return table


def split_table(corpus: Corpus, split: Split) -> Table:
    """How a corpus is split, by domain."""
    parts = {"train": split.train, "dev": split.dev, "test": split.test, "text only": split.unlabelled}
    table = Table("domain", title=f"split: {split.rule}", title_justify="left")
    for heading in parts:
        table.add_column(heading, justify="right")
    for name in corpus.domain_names:
        table.add_row(name, *(f"{(corpus.domains[rows] == name).sum():,}" for rows in parts.values()))
    table.add_section()
    table.add_row("all", *(f"{len(rows):,}" for rows in parts.values()), style="bold")
    return table


def split_notes(corpus: Corpus, split: Split) -> list[str]:
    """Return the caveats of a split."""
    notes = []
    repeated = sum(r.in_train_or_unlabelled for r in split.duplicates(corpus).values())
    if repeated:
        notes.append(
            f"note: {repeated:,} of {len(split.test):,} test texts are duplicates of training or unlabelled text of "
            "their domain; a given split is kept as it is"
        )
    labelled = split.test[corpus.labelled[split.test]]
    without = [name for name in corpus.domain_names if name not in set(corpus.domains[labelled])]
    if without:
        notes.append(f"note: {quoted(without)} cannot be scored: no test row has a label")
    return notes


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
    for entry in METHODS.values():
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
