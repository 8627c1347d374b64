"""Pretrained encoders as the trunk of a network: transformers, run once for shared and private features."""
