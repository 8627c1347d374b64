"""Corpora of many domains: reading, naming, checking and splitting them."""
