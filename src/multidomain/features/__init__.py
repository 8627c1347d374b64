"""Featurizers: documents to numbers."""
