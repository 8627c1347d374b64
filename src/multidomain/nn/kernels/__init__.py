"""Fast inner loops; each has a plain torch form beside it that a test holds equal."""
