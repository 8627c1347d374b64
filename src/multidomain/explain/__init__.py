"""What each word of a text adds to the prediction."""

from multidomain.explain.occlusion import Explanation, explain

__all__ = ["Explanation", "explain"]
