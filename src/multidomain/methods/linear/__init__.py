"""Linear models of several domains."""
