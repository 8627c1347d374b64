"""Class priors of domains without labels."""
