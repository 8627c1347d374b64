"""Documents to numbers: bags of n-grams, or words in their order."""

from typing import TypeAlias

from multidomain.features.bags import BagFeatures
from multidomain.features.sequences import WordSequences
from multidomain.features.tokens import TOKEN_PATTERN, normalise

Features: TypeAlias = BagFeatures | WordSequences

__all__ = ["TOKEN_PATTERN", "BagFeatures", "Features", "WordSequences", "normalise"]
