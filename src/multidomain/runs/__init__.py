"""A training run in a folder."""
