"""Compiled loops over texts and n-grams. Importing a module but `hashing` imports numba."""
