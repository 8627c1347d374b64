"""Documents to numbers: bags of n-grams, or words in their order."""

from multidomain.features.bags import BagFeatures
from multidomain.features.joined import Features, JoinedFeatures
from multidomain.features.sequences import WordSequences
from multidomain.features.tokens import TOKEN_PATTERN, normalise

__all__ = ["TOKEN_PATTERN", "BagFeatures", "Features", "JoinedFeatures", "WordSequences", "normalise"]
