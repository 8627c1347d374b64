"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Column, Table

from multidomain.corpus import CORPORA, CorpusSummary, Split
from multidomain.corpus.corpus import Corpus
from multidomain.evaluation import Evaluation
from multidomain.experiments.recipes import rows_of
from multidomain.features import WordSequences
from multidomain.invariance import Invariance
from multidomain.methods import METHODS
from multidomain.model import Model


def evaluation_table(evaluation: Evaluation, title: str) -> Table:
    """Accuracy and macro-F1 by domain, and their means."""
    table = Table("domain", "labels", title=title, title_justify="left")
    for heading in ("rows", "accuracy", "macro-F1"):
        table.add_column(heading, justify="right")
    for score in evaluation.domains:
        had = "yes" if score.had_labels else "none"
        table.add_row(
            score.domain, had, f"{score.rows:,}", f"{100 * score.accuracy:.2f}", f"{100 * score.macro_f1:.2f}"
        )
    table.add_section()
    total = sum(score.rows for score in evaluation.domains)
    accuracy, macro_f1 = f"{100 * evaluation.accuracy:.2f}", f"{100 * evaluation.macro_f1:.2f}"
    table.add_row("mean of domains", "", f"{total:,}", accuracy, macro_f1, style="bold")
    return table


def invariance_line(measured: Invariance | None) -> str:
    """Say in a line what a probe finds out from the shared features."""
    if measured is None:
        return "invariance: not measured (needs shared features and 8 held-out texts in each of two domains)"
    return (
        f"invariance: at least {measured.nats:.3f} nats apart (0: indistinguishable, {measured.most:.3f}: fully "
        f"separate); a probe names the domain in {measured.accuracy:.1%} of cases, chance is {measured.chance:.1%}"
    )


def model_table(model: Model, title: str) -> Table:
    """What a saved model is made of."""
    task = model.method.task
    unlabelled = [name for name in task.domains if name not in model.labelled_domains]
    reads_words = isinstance(model.features, WordSequences)
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
    table = Table("domain", title=f"{summary.name}: {summary.rows:,} rows", title_justify="left")
    for heading in ("rows", "labelled", *map(str, summary.class_names), "repeated texts", "label conflicts"):
        table.add_column(heading, justify="right")
    for name, domain in summary.domains.items():
        numbers = [domain.rows, domain.labelled, *domain.per_class.values()]
        numbers += [domain.repeated_texts, domain.conflicting_texts]
        table.add_row(name, *(f"{number:,}" for number in numbers))
    return table


def split_lines(corpus: Corpus, split: Split) -> list[str]:
    """Say how a corpus is split and how many test texts stand in the other parts too."""
    parts = {part: len(getattr(split, part)) for part in ("train", "dev", "test", "unlabelled")}
    counts = ", ".join(f"{name} {rows:,}" for name, rows in parts.items())
    lines = [f"split: {split.rule} ({counts})"]
    repeated = sum(r.in_train_or_unlabelled for r in split.repeats(corpus).values())
    if repeated:
        lines.append(
            f"note: {repeated:,} of {parts['test']:,} test texts stand in the training or unlabelled text of their "
            "domain too; a given split is kept as it is"
        )
    return lines


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
