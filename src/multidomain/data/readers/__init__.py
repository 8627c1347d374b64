"""Files to corpora."""
