"""Features of what a pretrained encoder has read."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor

from multidomain.nn.dropout import dropout
from multidomain.nn.encoders.private import UPDATES
from multidomain.nn.encoders.trunk import Reading
from multidomain.nn.extractors.base import Extractor, of_copy, register, uniform


@register("encoder", "pretrained encoder", uses=("encoder",), defaults={"lr": 1e-3, "dropout": 0.1, "k": 1})
class EncoderExtractor(Extractor):
    """`copies` linear layers with ReLU on the pooled output of one trunk, each with its own updates of upper layers.

    It reads what the trunk of the network has read (`Reading`), so that shared features and those of all domains cost
    one pass, not one each.

    Parameters
    ----------
    copies, n_inputs, n_outputs
        As for `Extractor`.
    width
        Of the trunk's output.
    dropout
        Probability of dropping an input of the linear layer.
    updates
        What each copy adds in the upper layers, if it adds something.
    trains_trunk
        Whether the gradient reaches the trunk.
    """

    featurizer = "subwords"
    several_processes = False  # nobody has tried it

    def __init__(
        self,
        copies: int,
        n_inputs: int,
        width: int,
        n_outputs: int,
        dropout: float,
        updates: Any = None,
        *,
        trains_trunk: bool = True,
    ):
        super().__init__(copies, n_inputs)
        self.dropout = dropout
        self.updates = updates
        self.trains_trunk = trains_trunk
        self.weight = uniform(copies, width, n_outputs, fan_in=width)
        self.bias = uniform(copies, 1, n_outputs, fan_in=width)

    @classmethod
    def from_settings(cls, settings: Any, copies: int, n_inputs: int, n_outputs: int, **options: Any) -> Self:
        encoder = settings.encoder
        config, updates = encoder.config, None
        if encoder.private != "head":
            layers = range(config.layers - min(encoder.private_layers, config.layers), config.layers)
            updates = UPDATES[encoder.private](copies, layers, config.width, encoder.rank)
        return cls(
            copies,
            n_inputs,
            config.width,
            n_outputs,
            settings.dropout,
            updates,
            trains_trunk=encoder.private_gradient,
        )

    def forward(self, x: Reading, copy: int | None = None) -> Tensor:
        h = self._read(x, copy).unflatten(0, (self.copies if copy is None else 1, -1))
        h = dropout(h, self.dropout, self.training)
        return torch.baddbmm(of_copy(self.bias, copy), h, of_copy(self.weight, copy)).relu()

    def _read(self, x: Reading, copy: int | None) -> Tensor:
        """Return what the texts read like to the copies, shape (texts, width)."""
        if self.updates is None:
            assert x.pooled is not None
            return x.pooled if self.trains_trunk else x.pooled.detach()
        place = torch.arange(len(x), device=self.weight.device)
        whose = place // max(len(x) // self.copies, 1) if copy is None else torch.full_like(place, copy)
        return x.trunk.private(x.hidden, self.updates, whose, trains=self.trains_trunk)
