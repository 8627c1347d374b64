"""A trained model: encode, predict, save, load."""
