"""Networks with a domain adversary, and the same networks without."""
