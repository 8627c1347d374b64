"""Evaluation of models, and of the invariance of their shared features."""
