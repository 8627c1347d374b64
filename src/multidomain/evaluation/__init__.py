"""How good a model is, and how invariant its shared features are."""
