"""A BERT-like transformer in plain torch: embeddings, and layers that can be run a few at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from multidomain.data.encoders.config import FARTHEST, Activation, EncoderConfig
from multidomain.nn.dropout import dropout

_ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "relu": functional.relu,
    "silu": functional.silu,
}


@dataclass(frozen=True)
class LayerUpdate:
    """What private parameters add in one layer, as functions of its input; None where they add nothing.

    Attributes
    ----------
    query, value
        Added to the projections of attention.
    output
        Added to the layer's output, of which it is a function.
    """

    query: Callable[[Tensor], Tensor] | None = None
    value: Callable[[Tensor], Tensor] | None = None
    output: Callable[[Tensor], Tensor] | None = None


class Layer(nn.Module):
    """Attention and a hidden layer, each with a skip connection and a layer norm after it."""

    def __init__(self, config: EncoderConfig):
        super().__init__()
        width = config.width
        self.heads = config.heads
        self.activation = _ACTIVATIONS[config.activation]
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.attention_norm = nn.LayerNorm(width, config.eps)
        self.inner = nn.Linear(width, config.inner)
        self.outer = nn.Linear(config.inner, width)
        self.norm = nn.LayerNorm(width, config.eps)

    def forward(self, h: Tensor, mask: Tensor | None, p: float, update: LayerUpdate | None) -> Tensor:
        """Return the next hidden states of texts, shape (texts, subwords, width).

        Parameters
        ----------
        mask
            What attention adds to its scores, or where it may look; broadcast to (texts, heads, subwords, subwords).
        p
            Probability of dropout.
        """
        query, value = self.query(h), self.value(h)
        if update is not None and update.query is not None:
            query = query + update.query(h)
        if update is not None and update.value is not None:
            value = value + update.value(h)
        seen = self._attention(query, self.key(h), value, mask)
        h = self.attention_norm(h + dropout(self.out(seen), p, p > 0))
        h = self.norm(h + dropout(self.outer(self.activation(self.inner(h))), p, p > 0))
        return h if update is None or update.output is None else h + update.output(h)

    def _attention(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in (query, key, value))
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)


class Transformer(nn.Module):
    """A pretrained encoder without its heads.

    Papers
    ------
    Devlin et al. 2019, BERT; Liu et al. 2019, RoBERTa; Sanh et al. 2019, DistilBERT; Song et al. 2020, MPNet.
    """

    def __init__(self, config: EncoderConfig):
        super().__init__()
        self.config = config
        self.words = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.positions, config.width)
        self.types = nn.Embedding(config.types, config.width) if config.types else None
        self.norm = nn.LayerNorm(config.width, config.eps)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        buckets = config.relative_buckets
        self.relative = nn.Embedding(buckets, config.heads) if buckets else None

    @property
    def embeddings(self) -> list[nn.Module]:
        """Return the modules below the first layer."""
        return [one for one in (self.words, self.positions, self.types, self.norm, self.relative) if one is not None]

    def embed(self, ids: Tensor, p: float = 0.0) -> Tensor:
        """Return the hidden states below the first layer; `ids` has the shape (texts, subwords)."""
        first = self.config.first_position
        h = self.words(ids) + self.positions.weight[first : first + ids.shape[1]]
        if self.types is not None:
            h = h + self.types.weight[0]  # a text is one segment
        return dropout(self.norm(h), p, p > 0)

    def run(
        self,
        h: Tensor,
        is_text: Tensor,
        layers: range,
        p: float = 0.0,
        updates: Callable[[int], LayerUpdate] | None = None,
    ) -> Tensor:
        """Run some of the layers.

        Parameters
        ----------
        is_text
            Which subwords are no padding, shape (texts, subwords).
        updates
            Gives what is added in a layer, by its number.
        """
        if not layers:
            return h
        mask = self._mask(is_text, h)
        for i in layers:
            h = self.layers[i](h, mask, p, None if updates is None else updates(i))
        return h

    def _mask(self, is_text: Tensor, h: Tensor) -> Tensor | None:
        seen = is_text[:, None, None, :]
        if self.relative is None:
            return None if bool(is_text.all()) else seen
        bias = self.relative(_buckets(is_text.shape[1], self.config.relative_buckets, h.device))
        bias = bias.permute(2, 0, 1)[None].to(h.dtype)  # (1, heads, subwords, subwords)
        return bias.masked_fill(~seen, -torch.inf)


def _buckets(length: int, buckets: int, device: torch.device) -> Tensor:
    """Return the bucket of each relative position: near ones have their own, farther ones share, by logarithms.

    The lower half is for what stands before a subword, the upper for what stands after it.
    """
    place = torch.arange(length, device=device)
    after = place[None, :] - place[:, None]
    half = buckets // 2
    exact = half // 2
    distance = after.abs()
    share = (distance.clamp(min=1) / exact).log() / math.log(FARTHEST / exact)
    far = (exact + share * (half - exact)).long().clamp(max=half - 1)
    return torch.where(distance < exact, distance, far) + half * (after > 0)


def mean_of_text(h: Tensor, is_text: Tensor) -> Tensor:
    """Return the mean of the hidden states of each text, padding left out; shape (texts, width)."""
    weight = is_text.to(h.dtype)
    return torch.einsum("tsw,ts->tw", h, weight) / weight.sum(dim=1, keepdim=True)
