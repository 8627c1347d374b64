"""Linear multi-domain models."""
