"""Which column of a table holds the text, the label, the domain and the part."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass

from multidomain.errors import DataError, did_you_mean, quoted

# In order of preference. A column has only one role: given both a `sentiment` and a `category`, the first is
# the label and the second the domain.
SYNONYMS = {
    "text": (
        "text", "review", "review_text", "reviewtext", "sentence", "body", "content", "comment", "message",
        "tweet", "document", "snippet", "utterance",
    ),
    "label": ("label", "class", "sentiment", "polarity", "target", "y", "category", "rating_class"),
    "domain": ("domain", "source", "product", "product_category", "topic", "category", "genre", "corpus"),
    "split": ("split", "part", "partition", "subset"),
}  # fmt: skip


@dataclass(frozen=True)
class Columns:
    """Names of the columns; None means auto-detected.

    Parameters
    ----------
    text, label, domain, split
        Column names, exactly as the file spells them.
    weight
        Column with weights of rows, which is never auto-detected.

    Examples
    --------
    >>> Columns(text="body", label="stars")
    Columns(text='body', label='stars', domain=None, split=None, weight=None)
    """

    text: str | None = None
    label: str | None = None
    domain: str | None = None
    split: str | None = None
    weight: str | None = None


def resolve_columns(
    names: Sequence[str],
    wanted: Columns,
    *,
    require: Collection[str],
    file: str,
    find: Collection[str] = ("text", "label", "domain", "split"),
) -> Columns:
    """Return the columns to use: those requested, and for the others the first synonym present.

    Parameters
    ----------
    names
        The columns of the table.
    wanted
        The columns the user requested.
    require
        Fields of `Columns` that must be found.
    file
        Name of the file, for messages.
    find
        Fields to auto-detect; the others stay None unless requested.

    Raises
    ------
    DataError
        A requested column does not exist, or a required one cannot be found.
    """
    found: dict[str, str | None] = asdict(wanted)
    for field, name in found.items():
        if name is not None and name not in names:
            raise DataError(f"{file} has no column '{name}' (asked for as the {field}).{did_you_mean(name, names)}")
    for field in found:
        if found[field] is None and field in find:
            found[field] = _first_synonym(field, names, taken=set(found.values()))
        if found[field] is None and field in require:
            raise _not_found(field, names, file)
    return Columns(**found)


def _first_synonym(field: str, names: Sequence[str], taken: Collection[str | None]) -> str | None:
    by_form = {name.strip().casefold().replace(" ", "_"): name for name in reversed(names) if name not in taken}
    return next((by_form[s] for s in SYNONYMS[field] if s in by_form), None)


def _not_found(field: str, names: Sequence[str], file: str) -> DataError:
    hint = f"Name the right one with {{{field}_column=NAME}}."
    if len(names) == 1 and any(mark in names[0] for mark in ";|\t"):
        hint += " The header seems to use another separator; save the file with commas, or as .tsv with tabs."
    return DataError(f"{file} has no column that looks like the {field}. Its columns: {quoted(names)}.", hint)
