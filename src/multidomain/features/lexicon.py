"""Sentiment lexicons: words with polarity scores."""

from __future__ import annotations

import math
from importlib import resources
from pathlib import Path

from multidomain.errors import ConfigError, DataError

VADER = "vader"


def read_lexicon(name_or_path: str) -> dict[str, float]:
    """Return a score from -1 to 1 for each word.

    Parameters
    ----------
    name_or_path
        ``vader`` (from the package vaderSentiment, extra ``lexicon``), or a file with a word, a tab and a number per
        line; further columns are ignored. Scores are divided by the largest.
    """
    if name_or_path == VADER:
        try:
            file = resources.files("vaderSentiment").joinpath("vader_lexicon.txt")
        except ModuleNotFoundError:
            raise ConfigError(
                "The lexicon 'vader' is in the package vaderSentiment, which is not installed. Install "
                "'multidomain[lexicon]', or give a file of words and values."
            ) from None
        lines = file.read_text(encoding="utf-8").splitlines()
    else:
        try:
            lines = Path(name_or_path).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"The lexicon {name_or_path} cannot be read: {error}.") from None
    values: dict[str, float] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        word, _, rest = line.partition("\t")
        try:
            value = float(rest.split("\t")[0])
            if not word.strip() or not math.isfinite(value):
                raise ValueError
            values[word.strip().lower()] = value
        except ValueError:
            raise DataError(
                f"{name_or_path}, line {number}: expected a word, a tab and a number, got {line[:60]!r}."
            ) from None
    largest = max((abs(value) for value in values.values()), default=0.0)
    if not largest:
        raise DataError(f"The lexicon {name_or_path} has no word with a value other than 0.")
    return {word: value / largest for word, value in values.items()}
