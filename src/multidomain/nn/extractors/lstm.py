"""LSTM feature extractors over token sequences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
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
        one_each = torch.arange(len(words.index) + 1, device=words.device)
        one_by_one = SparseBatch(words.index, words.value, one_each, counts=np.ones(len(words.index), np.int64))
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
    """The order in which the networks read the words of their documents, found outside of the device they are on.

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
        lengths = words.lengths
        offset = np.concatenate([[0], lengths.cumsum()])
        document = np.repeat(np.arange(len(lengths)), lengths)
        of_copy = lengths.reshape(copies, -1)
        longest_first = (-of_copy).argsort(axis=1, kind="stable")
        rank = longest_first.argsort(axis=1).ravel()
        longest = np.take_along_axis(of_copy, longest_first, axis=1).max(axis=0)
        at_end = np.bincount(longest)  # how many end at each length
        widths = len(longest) - at_end.cumsum()[:-1]
        start = widths.cumsum() - widths

        forwards = np.arange(len(document)) - offset[document]
        step = np.stack([forwards, lengths[document] - 1 - forwards][:directions], axis=1)
        size = int(widths.sum())
        network = (document * copies // len(lengths))[:, None] * directions + np.arange(directions)
        place = network * size + start[step] + rank[document, None]
        word = np.zeros(copies * directions * size, np.int64)
        word[place] = np.arange(len(document))[:, None]
        ends = np.stack([offset[1:] - 1, offset[:-1]][:directions], axis=1)
        last = np.take_along_axis(place, ends, axis=0)
        return cls(widths.tolist(), *(torch.as_tensor(where).to(words.device) for where in (word, place, last)))


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
    lengths = x.lengths
    if (lengths > 0).all():
        return x
    at_least_one = np.maximum(lengths, 1)
    offset = torch.as_tensor(np.concatenate([[0], at_least_one.cumsum()])).to(x.device)
    index = x.index.new_zeros(int(at_least_one.sum()))
    value = x.value.new_ones(len(index))
    kept = offset[:-1][x.row_of_value] + torch.arange(len(x.index), device=x.device) - x.offset[x.row_of_value]
    index[kept] = x.index
    return SparseBatch(index, value, offset, counts=at_least_one)
