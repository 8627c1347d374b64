"""Benchmarks against plain implementations."""
