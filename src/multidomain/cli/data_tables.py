"""Tables of a corpus and its split for the terminal; shortened if there are many domains."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.table import Table

from multidomain.data.checks import CorpusSummary
from multidomain.data.corpus import Corpus
from multidomain.data.splits import Split
from multidomain.errors import counted, quoted

_WHOLE = 50  # domains: a longer table is shortened to the largest, the smallest and the most troubled of them
_LARGEST, _SMALLEST, _TROUBLED = 20, 10, 10
_CLASSES_SHOWN = 6
_LONGEST_RULE = 400  # characters


def shown_domains(sizes: Sequence[int], trouble: Sequence[float]) -> list[int]:
    """Return which domains a table shows: all, or by size some of many.

    Parameters
    ----------
    sizes
        Rows of each domain.
    trouble
        What makes a domain worth showing whatever its size; 0 for nothing.

    Examples
    --------
    >>> shown_domains([5, 9], [0, 0])
    [0, 1]
    >>> len(shown_domains(range(1000), [0] * 1000))
    30
    """
    everything = range(len(sizes))
    if len(sizes) <= _WHOLE:
        return list(everything)
    by_size = sorted(everything, key=lambda i: -sizes[i])
    troubled = sorted((i for i in everything if trouble[i] > 0), key=lambda i: -trouble[i])
    kept = {*by_size[:_LARGEST], *by_size[-_SMALLEST:], *troubled[:_TROUBLED]}
    return [i for i in by_size if i in kept]


def add_rest(table: Table, shown: int, total: int, *, by: str = "", whole: str = "") -> None:
    """End a shortened table with how many domains were left out.

    Parameters
    ----------
    by
        What the troubled domains have most of.
    whole
        Where all domains can be found.
    """
    if shown == total:
        return
    table.add_row(f"and {total - shown:,} more")
    kinds = [f"the {_LARGEST} largest domains", f"the {_SMALLEST} smallest"] + [f"the {_TROUBLED} with {by}"] * bool(by)
    caption = f"shown are {', '.join(kinds[:-1])} and {kinds[-1]}" + (f"; {whole}" if whole else "")
    table.caption = f"{table.caption}\n{caption}" if table.caption else caption
    table.caption_justify = "left"


def summary_table(summary: CorpusSummary) -> Table:
    """What a corpus holds, by domain."""
    title = f"{summary.name}: {counted(summary.rows, 'row')}, {counted(len(summary.domains), 'domain')}, "
    table = Table("domain", title=title + counted(len(summary.class_names), "class"), title_justify="left")
    classes = summary.class_names if len(summary.class_names) <= _CLASSES_SHOWN else ()
    for heading in ("rows", "labelled", *map(str, classes), "duplicates", "conflicts"):
        table.add_column(heading, justify="right")
    domains = list(summary.domains.items())
    shown = shown_domains([one.rows for _, one in domains], [one.conflicting_texts for _, one in domains])
    for name, domain in (domains[i] for i in shown):
        numbers = [domain.rows, domain.labelled, *(domain.per_class[c] for c in classes)]
        numbers += [domain.repeated_texts, domain.conflicting_texts]
        table.add_row(name, *(f"{number:,}" for number in numbers))
    if not classes:
        table.caption, table.caption_justify = f"classes: {quoted(summary.class_names)}", "left"
    whole = "'multidomain inspect DATA --json' prints all"
    add_rest(table, len(shown), len(domains), by="most conflicts", whole=whole)
    return table


def split_table(corpus: Corpus, split: Split) -> Table:
    """How a corpus is split, by domain."""
    parts = {"train": split.train, "dev": split.dev, "test": split.test, "text only": split.unlabelled}
    rule = split.rule if len(split.rule) <= _LONGEST_RULE else f"{split.rule[:_LONGEST_RULE]} ..."
    table = Table("domain", title=f"split: {rule}", title_justify="left")
    for heading in parts:
        table.add_column(heading, justify="right")
    n_domains = len(corpus.domain_names)
    sizes = np.stack([np.bincount(corpus.domain_codes[rows], minlength=n_domains) for rows in parts.values()], axis=1)
    shown = shown_domains(sizes.sum(axis=1).tolist(), [0] * n_domains)
    for i in shown:
        table.add_row(corpus.domain_names[i], *(f"{size:,}" for size in sizes[i]))
    add_rest(table, len(shown), n_domains)
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
    scored = set(corpus.domains[split.test[corpus.labelled[split.test]]])
    without = [name for name in corpus.domain_names if name not in scored]
    if without:
        notes.append(f"note: {quoted(without)} cannot be scored: no test row has a label")
    return notes
