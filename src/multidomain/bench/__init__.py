"""Measurements of ourselves against plain implementations."""
