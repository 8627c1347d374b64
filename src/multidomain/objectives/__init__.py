"""What D and F_s minimise, and what the theory says about it."""
