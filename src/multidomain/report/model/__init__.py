"""The report of a trained model: one HTML file, made from its folder alone."""
