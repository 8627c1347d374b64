"""Feature extractors: documents to feature vectors."""
