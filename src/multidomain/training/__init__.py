"""Training: streams, the loop, checkpoints, progress. Knows methods only through their contract."""
