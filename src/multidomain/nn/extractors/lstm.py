"""LSTM feature extractors over token sequences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from multidomain.nn.extractors.base import WORD_SETTINGS, WordExtractor, register, uniform
from multidomain.nn.kernels.recurrence import lstm_states
from multidomain.nn.kernels.row_sum import row_sum
from multidomain.nn.sparse import SparseBatch

_MOST_PLACES = 4  # for each word, in a batch of all copies


@register("lstm", "recurrent network", uses=(*WORD_SETTINGS, "state"))
@register("bilstm", "recurrent network in both directions", uses=(*WORD_SETTINGS, "state"), both_directions=True)
@register(
    "bilstm-attention",
    "recurrent network in both directions, with attention",
    uses=(*WORD_SETTINGS, "state"),
    both_directions=True,
    attention=True,
)
class LSTMExtractor(WordExtractor):
    r"""`copies` LSTMs of the same shape, each with its own word vectors.

    Word vectors, an LSTM in one or both directions, dropout, a linear layer, ReLU. The LSTM's output is the last state
    of each direction or, with attention, the mean of all states weighted by

    .. math:: \alpha_t = \mathrm{softmax}_t(u \cdot h_t)

    with a learnt vector `u` (dot-product attention). All copies and directions run in one batch, unless some texts
    are so much longer that most of it would be padding. An empty document counts as a single unknown word.

    Parameters
    ----------
    copies, n_inputs, dimension, n_outputs, dropout
        As for `WordExtractor`.
    hidden
        State size per direction.
    """

    def __init__(
        self,
        copies: int,
        n_inputs: int,
        dimension: int,
        hidden: int,
        n_outputs: int,
        dropout: float,
        *,
        both_directions: bool = False,
        attention: bool = False,
    ):
        directions = 2 if both_directions else 1
        width, gates = hidden * directions, 4 * hidden
        super().__init__(copies, n_inputs, dimension, width, n_outputs, dropout)
        self.input_weight = uniform(copies, directions, dimension, gates, fan_in=hidden)
        self.state_weight = uniform(copies, directions, hidden, gates, fan_in=hidden)
        self.gate_bias = uniform(copies, directions, 1, gates, fan_in=hidden)
        self.attention = uniform(copies, width, fan_in=width) if attention else None

    @classmethod
    def from_settings(cls, settings: Any, copies: int, n_inputs: int, n_outputs: int, **options: Any) -> Self:
        return cls(copies, n_inputs, settings.dimension, settings.state, n_outputs, settings.dropout, **options)

    def forward(self, x: SparseBatch, copy: int | None = None) -> Tensor:
        words = self._in_table(_with_a_word(x), copy)
        # Each word is its own row, so that the vectors get row gradients like every other table.
        one_by_one = SparseBatch(
            words.index, words.value, torch.arange(len(words.index) + 1, device=words.index.device)
        )
        look_up = row_sum if self._learning is None else self._learning.row_sum
        vectors = look_up(one_by_one, self.vectors)  # (words, dimension)

        copies = range(self.copies) if copy is None else range(copy, copy + 1)
        summaries = self._summaries(words, vectors, copies)
        return self._features(summaries.view(len(copies), -1, summaries.shape[1]), copy)

    def _summaries(self, words: SparseBatch, vectors: Tensor, copies: range) -> Tensor:
        """Return one vector per document, shape (documents, width)."""
        parameters = (self.input_weight, self.state_weight, self.gate_bias)
        W, U, b = (p[copies.start : copies.stop].flatten(0, 1) for p in parameters)  # one per copy and direction
        order = _Order.of(words, len(copies), directions=len(W) // len(copies))
        if len(copies) > 1 and len(order.word) > _MOST_PLACES * order.place.numel():
            each = len(words) // len(copies)
            parts = [(words.blocks([place], each), copies[place : place + 1]) for place in range(len(copies))]
            of_each = vectors.split([len(part.index) for part, _ in parts])
            return torch.cat([self._summaries(part, own, c) for (part, c), own in zip(parts, of_each, strict=True)])
        read = vectors.index_select(0, order.word)
        states = lstm_states(read.view(len(W), -1, read.shape[1]), order.widths, W, U, b).flatten(0, 1)
        if self.attention is None:
            return states[order.last].flatten(1)
        return _attended(states[order.place].flatten(1), words, self.attention[copies.start : copies.stop])


@dataclass(frozen=True)
class _Order:
    """The order in which the networks read the words of their documents.

    Attributes
    ----------
    widths
        Number of documents per network that have a word at each step.
    word
        The word that each network reads at each position; arbitrary where it has fewer documents left.
    place
        Where each word is read in each direction, shape (words, directions).
    last
        Where each document's last word is read in each direction, shape (documents, directions).
    """

    widths: list[int]
    word: Tensor
    place: Tensor
    last: Tensor

    @classmethod
    def of(cls, words: SparseBatch, copies: int, directions: int) -> _Order:
        """Order documents, the same number per copy, by length."""
        lengths, document = words.offset.diff(), words.row_of_value
        longest_first = lengths.view(copies, -1).argsort(dim=1, descending=True, stable=True)
        rank = longest_first.argsort(dim=1).flatten()
        longest = lengths.view(copies, -1).gather(1, longest_first).amax(dim=0)
        at_end = longest.bincount()  # how many end at each length
        widths = len(longest) - at_end.cumsum(0)[:-1]
        start = widths.cumsum(0) - widths

        forwards = torch.arange(len(document), device=lengths.device) - words.offset[document]
        step = torch.stack([forwards, lengths[document] - 1 - forwards][:directions], dim=1)
        size = int(widths.sum())
        network = (document * copies // len(lengths))[:, None] * directions + torch.arange(directions).to(step)
        place = network * size + start[step] + rank[document, None]
        word = step.new_zeros(copies * directions * size)
        word[place] = torch.arange(len(document), device=lengths.device)[:, None].expand_as(place)
        ends = torch.stack([words.offset[1:] - 1, words.offset[:-1]][:directions], dim=1)
        return cls(widths.tolist(), word, place, place.gather(0, ends))


def _attended(h: Tensor, words: SparseBatch, attention: Tensor) -> Tensor:
    """Return the weighted mean of each document's states, shape (documents, width)."""
    document, documents = words.row_of_value, len(words)
    scores = (h * attention[document * len(attention) // documents]).sum(dim=1)
    highest = scores.new_full((documents,), -torch.inf).scatter_reduce(0, document, scores.detach(), "amax")
    alpha = (scores - highest[document]).exp()
    total = alpha.new_zeros(documents).index_add(0, document, alpha)
    return h.new_zeros(documents, h.shape[1]).index_add(0, document, (alpha / total[document])[:, None] * h)


def _with_a_word(x: SparseBatch) -> SparseBatch:
    """Return the batch with word 0, the unknown word, in each empty row."""
    lengths = x.offset.diff()
    if (lengths > 0).all():
        return x
    offset = torch.zeros_like(x.offset)
    torch.cumsum(lengths.clamp(min=1), 0, out=offset[1:])
    index = x.index.new_zeros(int(offset[-1]))
    value = x.value.new_ones(len(index))
    kept = offset[:-1][x.row_of_value] + torch.arange(len(x.index), device=offset.device) - x.offset[x.row_of_value]
    index[kept] = x.index
    return SparseBatch(index, value, offset)
