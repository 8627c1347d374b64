"""Compiled loops over texts and n-grams. `hashing` and `parallel` do without numba, the other modules import it."""
