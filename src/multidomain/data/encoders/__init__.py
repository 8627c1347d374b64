"""Pretrained encoders: where they come from, and what their folders hold."""
