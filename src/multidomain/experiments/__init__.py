"""The paper's experiments: protocols, recipes for the rows of its tables, records of runs, significance."""
