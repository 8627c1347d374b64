"""Text normalisation: a raw text and its treebank-tokenised copy give the same tokens (decision 6)."""

from __future__ import annotations

import html
import re
import unicodedata
from itertools import groupby
from typing import Any

from multidomain.errors import ModelError, quoted

RULES = "1"
"""Name of the rules below, which a saved model states; other rules get another name."""


def _combining_marks() -> str:
    """Return the combining marks of the Basic Multilingual Plane as the body of a character class."""
    codes = [c for c in range(0x300, 0x10000) if unicodedata.category(chr(c)).startswith("M")]
    runs = [list(run) for _, run in groupby(enumerate(codes), key=lambda pair: pair[1] - pair[0])]
    return "".join(f"{chr(run[0][1])}-{chr(run[-1][1])}" for run in runs)


# Python's \w excludes combining marks, without which words of Hindi, Thai or pointed Hebrew fall apart; the
# last two are the joiners that Persian and Indic scripts use inside words.
_WORD = rf"[\w{_combining_marks()}\u200c\u200d]+"

TOKEN_PATTERN = rf"{_WORD}(?:[',.](?:(?<=')|(?<=\d[,.])(?=\d)){_WORD})*|[!?]"
"""What counts as a token of a text that `normalise` returned: a word, a number, ``!`` or ``?``.

- Apostrophes stay inside words: ``don't`` is the token that carries the negation.
- Hyphens split. Some write ``well-written``, others ``well written``: so they share their counts, and the
  bigram keeps the compound. Nor does a dash set without blanks glue two words together.
- Points and commas stay between digits: ``1.5 stars`` must not count as ``5 stars``.
- All other punctuation is dropped; ``!`` and ``?`` carry sentiment.
"""

_CHARACTERS = str.maketrans(
    dict.fromkeys("´‘’‛′ʼ", "'")
    | dict.fromkeys("“”„‟″«»", '"')
    | dict.fromkeys("™℠", " ")  # NFKC would append them to the preceding word
)
_ENTITY = re.compile(r"& ?(#?\w{2,8}) ?;")
_TAG = re.compile(r"< ?/? ?(?:br|p|i|b|u|em|strong|li|ul|div|span|a)(?: ?/?| [a-z]+ ?=[^<>]*) ?>")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")  # kana and Han
_BRACKET = re.compile(r"-[lr][rsc]b-")
# Not before another quote: in "the 's' key" the s is quoted.
_CLITIC = re.compile(r" (?=n't\b|'(?:s|m|d|re|ve|ll)\b(?!'))")
# Treebank tokenisers split these words in two. People also write "can not", so there we normalise to the
# split form; nobody writes the other split forms.
_CUT_WORDS = [
    (found, re.compile(rf"(?<!\w){found}\b"), wanted)
    for found, wanted in {
        "cannot": "can not",
        "gon na": "gonna",
        "got ta": "gotta",
        "wan na": "wanna",
        "gim me": "gimme",
        "lem me": "lemme",
        "'t is": "'tis",
        "'t was": "'twas",
    }.items()
]


def normalise(text: str) -> str:
    """Normalise raw and treebank-tokenised text, so that `TOKEN_PATTERN` finds the same tokens in both.

    Lower case; Unicode in NFKC; one kind of single and of double quote; HTML entities decoded and the
    commonest tags dropped; treebank clitics joined to their word and bracket codes (``-lrb-``) dropped; a
    space around each Han character and kana, which are written without spaces.

    Parameters
    ----------
    text : str
        A document.

    Returns
    -------
    str
        The text to tokenise; not meant for display.

    Examples
    --------
    >>> normalise("I can't read Larkin's “Book” &amp; won't")
    'i can\\'t read larkin\\'s "book" & won\\'t'
    >>> normalise("i ca n't read larkin 's `` book '' & wo n't")
    'i can\\'t read larkin\\'s " book " & won\\'t'
    """
    # Each substitution is guarded by a test about ten times cheaper: most texts need few of them.
    if "&" in text:
        # Twice, since some texts are double-escaped: &amp;quot;
        text = _ENTITY.sub(_decode, _ENTITY.sub(_decode, text))
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text.translate(_CHARACTERS))
        text = _UNSPACED.sub(r" \g<0> ", text)
    text = text.lower().replace("`", "'").replace("''", '"').replace("_", " ")
    if "<" in text:
        text = _TAG.sub(" ", text)
    if "b-" in text:
        text = _BRACKET.sub(" ", text)
    if " '" in text or " n't" in text:
        text = _CLITIC.sub("", text)
    for found, pattern, wanted in _CUT_WORDS:
        if found in text:
            text = pattern.sub(wanted, text)
    return text


def rules_as_data() -> dict[str, Any]:
    """Return the rules as JSON can hold them, for other programs: the steps to take, in order, and what a token is."""
    decode: list[Any] = [{"decode_html_entities": _ENTITY.pattern}] * 2
    replaced = [
        ("`", "'"),
        ("''", '"'),
        ("_", " "),
        (_TAG.pattern, " "),
        (_BRACKET.pattern, " "),
        (_CLITIC.pattern, ""),
    ]
    return {
        "rules": RULES,
        "steps": [
            *decode,
            {"characters": {chr(code): to for code, to in _CHARACTERS.items()}},
            {"unicode_form": "NFKC"},
            {"pattern": _UNSPACED.pattern, "replacement": r" \g<0> "},
            {"lower_case": True},
            *({"pattern": pattern, "replacement": to} for pattern, to in replaced),
            *({"pattern": pattern.pattern, "replacement": to} for _, pattern, to in _CUT_WORDS),
        ],
        "token": TOKEN_PATTERN,
    }


def _decode(entity: re.Match[str]) -> str:
    return html.unescape(f"&{entity[1]};")


def is_plain(text: str) -> bool:
    """Whether a text is ASCII without HTML, so that `normalise` only changes quotes, blanks and split words."""
    if not text.isascii():
        return False
    if "&" in text and _ENTITY.search(text):
        return False
    return "<" not in text or not _TAG.search(text.lower().replace("_", " "))


def check_rules(name: str) -> None:
    """Refuse the rules of another version."""
    if name != RULES:
        raise ModelError(
            f"The model was trained on tokens by the rules '{name}'. This version knows {quoted([RULES])}.",
            "Install the version of multidomain that the model was saved with, or a later one.",
        )
