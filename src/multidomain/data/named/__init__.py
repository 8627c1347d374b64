"""The corpora known by name."""
