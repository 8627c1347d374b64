"""Search over the settings of a method, on the dev set."""
