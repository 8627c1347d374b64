"""Prediction settings."""

from __future__ import annotations

from typing import Literal, TypeAlias

UnknownDomain: TypeAlias = Literal["shared", "error"]
"""What to do with a domain that was not in training: answer from the shared features, or refuse."""
