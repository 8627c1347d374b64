"""Why this answer: what each word of a text adds to it, in shared and in private features."""

from multidomain.explanation.words import Explanation, WordContribution, explain

__all__ = ["Explanation", "WordContribution", "explain"]
