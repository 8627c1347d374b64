"""The model that is being served, which can be replaced while the server runs."""

from __future__ import annotations

from multidomain.model.model import Model
from multidomain.serve.schemas import ModelFacts


class Served:
    """A model and its description; what a request has begun with, it ends with.

    Parameters
    ----------
    model
        Must read texts.
    facts
        The response of ``/v1/model``; see `model_facts`.
    """

    def __init__(self, model: Model, facts: ModelFacts) -> None:
        self.model, self.facts = model, facts

    def replace(self, other: Served) -> None:
        """Serve another model from now on."""
        self.model, self.facts = other.model, other.facts
