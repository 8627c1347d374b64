"""Reports: measured results as tables for people. Never trains."""
