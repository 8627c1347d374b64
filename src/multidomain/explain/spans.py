"""The words of a text and their positions in it, as written."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

from multidomain.features.token_rules import TOKEN_PATTERN, normalise
from multidomain.features.vocabulary import Vocabulary

Span: TypeAlias = tuple[int, int]
"""Start and end, in characters of the text as Python counts them (code points)."""

_TOKEN = re.compile(TOKEN_PATTERN)
# What `normalise` may take as one sign or drop, and the sign that is still there if it did neither: tags, bracket
# codes, entities that were escaped twice, entities.
_SIGNS = [
    (re.compile(r"(?:<|& ?lt ?;)[^<>]{1,500}?(?:>|& ?gt ?;)", re.IGNORECASE), ">"),
    (re.compile(r"-\w{3}-"), "-"),
    (re.compile(r"& ?amp ?; ?#?\w{2,8} ?;", re.IGNORECASE), ";"),
    (re.compile(r"& ?#?\w{2,8} ?;"), ";"),
]


def word_spans(text: str) -> list[Span]:
    """Return the positions of the words of a text, and of its ``!`` and ``?``.

    They are what `TOKEN_PATTERN` finds, but in the text as it was written: upper case, entities (``caf&eacute;`` is one
    span), curly apostrophes and all. A tag is no span. Characters that the model reads as several words (``½``) are
    one.

    Examples
    --------
    >>> text = "Don’t buy it.<br/>Caf&eacute; &amp; bar!"
    >>> [text[start:end] for start, end in word_spans(text)]
    ['Don’t', 'buy', 'it', 'Caf&eacute;', 'bar', '!']
    """
    signs = list(_signs(text))
    of_character = [span for span, form in signs for _ in form]
    spans: list[Span] = []
    for token in _TOKEN.finditer("".join(form for _, form in signs)):
        start, end = of_character[token.start()][0], of_character[token.end() - 1][1]
        if start and _needs_a_base(text[start]) and not text[start - 1].isspace():
            start -= 1
        if spans and start < spans[-1][1]:
            start, _ = spans.pop()
        spans.append((start, end))
    return spans


def without_word(text: str, span: Span, stand_in: str) -> str:
    """Return the text with one word replaced by another."""
    before, after = text[: span[0]], text[span[1] :]
    # Only where it is missing: with a second blank, what follows in "larkin 's" would become a word of its own.
    blank = "" if after[:1].isspace() else " "
    return f"{before} {stand_in}{blank}{after}"


def unknown_word(vocabulary: Sequence[str]) -> str:
    """Return a word that is part of no n-gram; too long to be the name of an entity, should it follow a ``&``."""
    text = vocabulary.text if isinstance(vocabulary, Vocabulary) else "\n".join(vocabulary)
    word = "somethingelse"
    while word in text:
        word += "x"
    return word


def _signs(text: str) -> Iterator[tuple[Span, str]]:
    """Yield the units of a text for `normalise`, mostly characters, with the result for each."""
    start = 0
    while start < len(text):
        end, form = start + 1, None
        if text[start] in "<&-":
            for pattern, stays in _SIGNS:
                found = pattern.match(text, start)
                if found and stays not in normalise(found[0]):
                    end, form = found.end(), normalise(found[0])
                    break
        yield (start, end), _character(text[start]) if form is None else form
        start = end


@lru_cache(maxsize=4096)
def _character(character: str) -> str:
    return normalise(character)


def _needs_a_base(character: str) -> bool:
    """Whether a character is a mark or joiner, which can be seen only with the one before it: in an emoji, say."""
    return unicodedata.category(character).startswith("M") or character in "\u200c\u200d"
