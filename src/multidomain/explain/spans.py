"""The words of a text and where they stand in it, as it was written."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

from multidomain.features.tokens import TOKEN_PATTERN, normalise

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


def pieces_of(text: str) -> list[Span]:
    """Return where the words of a text stand, and its ``!`` and ``?``.

    They are what `TOKEN_PATTERN` finds, but in the text as it was written: upper case, entities (``caf&eacute;`` is one
    piece), curly apostrophes and all. A tag is no piece. Characters that the model reads as several words (``½``) are
    one.

    Examples
    --------
    >>> text = "Don’t buy it.<br/>Caf&eacute; &amp; bar!"
    >>> [text[start:end] for start, end in pieces_of(text)]
    ['Don’t', 'buy', 'it', 'Caf&eacute;', 'bar', '!']
    """
    signs = list(_signs(text))
    spans = [span for span, form in signs for _ in form]
    pieces: list[Span] = []
    for token in _TOKEN.finditer("".join(form for _, form in signs)):
        start, end = spans[token.start()][0], spans[token.end() - 1][1]
        if start and _needs_a_base(text[start]) and not text[start - 1].isspace():
            start -= 1
        if pieces and start < pieces[-1][1]:
            start, _ = pieces.pop()
        pieces.append((start, end))
    return pieces


def left_out(text: str, piece: Span, stand_in: str) -> str:
    """Return the text with another word in the place of a piece."""
    before, after = text[: piece[0]], text[piece[1] :]
    # Only where it is missing: with a second blank, what follows in "larkin 's" would become a word of its own.
    blank = "" if after[:1].isspace() else " "
    return f"{before} {stand_in}{blank}{after}"


def unknown_word(vocabulary: Sequence[str]) -> str:
    """Return a word that is part of no n-gram; too long to be the name of an entity, should it follow a ``&``."""
    word = "somethingelse"
    while any(word in ngram for ngram in vocabulary):
        word += "x"
    return word


def _signs(text: str) -> Iterator[tuple[Span, str]]:
    """Yield the parts of a text that `normalise` reads as one, mostly characters, and what it makes of each."""
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
