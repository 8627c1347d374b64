"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
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
from multidomain.features.sequences import SequenceFeaturizer
from multidomain.methods.registry import METHODS
from multidomain.model.model import Model

_CLASSES_SHOWN = 6

_SCORES = {
    "accuracy": "accuracy",
    "macro_f1": "macro-F1",
    "shared_accuracy": "shared",
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


def invariance_lines(before: Invariance | None, after: Invariance | None) -> list[str]:
    """Say what a probe finds out from the shared features, before training and after it."""
    if after is None:
        return ["invariance: not measured (needs shared features and 8 held-out texts in each of two domains)"]
    lines = [
        f"invariance: at least {after.nats:.3f} nats apart (0: indistinguishable, {after.most:.3f}: fully "
        f"separate); a probe names the domain in {after.accuracy:.1%} of cases, chance is {after.chance:.1%}"
    ]
    if before is not None:
        lines.append(f"            before training: {before.nats:.3f} nats, {before.accuracy:.1%} of cases")
    return lines


def model_table(model: Model, title: str) -> Table:
    """What a saved model is made of."""
    task = model.method.task
    unlabelled = [name for name in task.domains if name not in model.labelled_domains]
    reads_words = isinstance(model.features, SequenceFeaturizer)
    words = "given vectors" if model.features.vocabulary is None else "words" if reads_words else "n-grams"
    parameters = sum(p.numel() for p in model.method.parameters())
    table = Table("", "", title=title, title_justify="left", show_header=False)
    table.add_row("method", model.method_name)
    table.add_row("classes", ", ".join(map(str, model.classes)))
    table.add_row("domains with labels", ", ".join(model.labelled_domains))
    table.add_row("domains without", ", ".join(unlabelled) or "none")
    table.add_row("features", f"{task.n_inputs:,} {words}, {model.features.weighting}")
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
    for heading in ("rows", "labelled", *map(str, classes), "repeats", "conflicts"):
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
    """Say what a reader of the figures must know about a split."""
    notes = []
    repeated = sum(r.in_train_or_unlabelled for r in split.repeats(corpus).values())
    if repeated:
        notes.append(
            f"note: {repeated:,} of {len(split.test):,} test texts stand in the training or unlabelled text of their "
            "domain too; a given split is kept as it is"
        )
    labelled = split.test[corpus.labelled[split.test]]
    without = [name for name in corpus.domain_names if name not in set(corpus.domains[labelled])]
    if without:
        notes.append(f"note: {quoted(without)} cannot be scored: no test row has a label")
    return notes


def kept_line(best_epoch: int, epochs: int, chosen: Mapping[str, Any], seconds: float) -> str:
    """Say what was selected on the development rows."""
    kept = f"kept epoch {best_epoch} of {epochs}" if epochs else f"chosen: {chosen or 'nothing to choose'}"
    return f"\n{kept}, {seconds:.0f} s in all"


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
        needs = [f"labels {entry.labels}"]
        needs += ["uses unlabelled text"] * entry.uses_unlabelled_text + [f"words {entry.words}"] * bool(entry.words)
        table.add_row(entry.name, entry.summary, "\n".join(rows_of(entry.name)), "; ".join(needs), entry.paper)
    return table
