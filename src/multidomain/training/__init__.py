"""Training: streams, the loop, checkpoints, callbacks. Knows methods only through their contract."""
