"""Fast inner loops; each has a plain torch equivalent that a test compares it with."""
