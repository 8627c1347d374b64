"""Multi-domain text classification with Multinomial Adversarial Networks."""

__version__ = "0.1.0"
