"""Private parts of a shared encoder: low-rank updates and adapters, one for each domain, applied in one pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from multidomain.nn.encoders.transformer import LayerUpdate


class Updates(Protocol):
    """Private parts of the upper layers of an encoder."""

    layers: range

    def of_texts(self, copy: Tensor) -> Callable[[int], LayerUpdate]:
        """Return what is added in each layer to texts, given whose copy each of them reads."""
        ...


class _OfDomains(nn.Module):
    """A product of two thin matrices for each domain and layer; the second starts at zero, so that nothing changes."""

    def __init__(self, layers: int, copies: int, width: int, rank: int):
        super().__init__()
        bound = width**-0.5
        self.down = nn.Parameter(torch.empty(layers, copies, width, rank).uniform_(-bound, bound))
        self.up = nn.Parameter(torch.zeros(layers, copies, rank, width))

    def of_texts(self, layer: int, copy: Tensor, hidden: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """Return the function of hidden states (texts, subwords, width) that reads each text's own matrices."""
        down, up = self.down[layer].index_select(0, copy), self.up[layer].index_select(0, copy)
        return lambda h: torch.bmm(hidden(torch.bmm(h, down.to(h.dtype))), up.to(h.dtype))


class LowRankUpdates(nn.Module):
    """Low-rank updates of the projections to queries and values (Hu et al. 2022, LoRA).

    Parameters
    ----------
    copies
        Number of domains.
    layers
        Numbers of the layers that have updates.
    """

    def __init__(self, copies: int, layers: range, width: int, rank: int):
        super().__init__()
        self.layers = layers
        self.query = _OfDomains(len(layers), copies, width, rank)
        self.value = _OfDomains(len(layers), copies, width, rank)

    def of_texts(self, copy: Tensor) -> Callable[[int], LayerUpdate]:
        def of_layer(i: int) -> LayerUpdate:
            own = i - self.layers.start
            return LayerUpdate(
                query=self.query.of_texts(own, copy, _as_it_is), value=self.value.of_texts(own, copy, _as_it_is)
            )

        return of_layer


class Adapters(nn.Module):
    """Bottleneck adapters after each layer (Houlsby et al. 2019). For the parameters see `LowRankUpdates`."""

    def __init__(self, copies: int, layers: range, width: int, rank: int):
        super().__init__()
        self.layers = layers
        self.output = _OfDomains(len(layers), copies, width, rank)

    def of_texts(self, copy: Tensor) -> Callable[[int], LayerUpdate]:
        return lambda i: LayerUpdate(output=self.output.of_texts(i - self.layers.start, copy, torch.relu))


def _as_it_is(h: Tensor) -> Tensor:
    return h


UPDATES: dict[str, Any] = {"lora": LowRankUpdates, "adapter": Adapters}
