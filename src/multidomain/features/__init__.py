"""Documents to arrays, fitted on training and unlabelled text, never on test."""

from multidomain.features.bags import BagFeatures
from multidomain.features.tokens import TOKEN_PATTERN, normalise

__all__ = ["TOKEN_PATTERN", "BagFeatures", "normalise"]
