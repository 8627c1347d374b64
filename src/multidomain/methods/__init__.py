"""Methods: one paper is one file; `registry` knows them by name."""
