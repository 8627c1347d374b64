"""Named corpora."""
