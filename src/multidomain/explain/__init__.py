"""What each word of a text adds to the prediction."""
