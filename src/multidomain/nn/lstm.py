"""Recurrent networks over words as feature extractors."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from multidomain.nn.extractor_base import WordExtractor, uniform
from multidomain.nn.row_sum import row_sum, row_sum_with_row_gradient
from multidomain.nn.rows import Rows


class LSTMExtractor(WordExtractor):
    r"""`copies` recurrent networks of one shape, each with word vectors of its own.

    Word vectors, an LSTM in one direction or both, dropout, a linear layer, ReLU. What goes on is the last state of
    each direction or, with attention, the mean of all states weighted by

    .. math:: \alpha_t = \mathrm{softmax}_t(u \cdot h_t)

    with a learnt vector `u` (dot-product attention). Documents of different lengths are packed, so that no step is
    spent on padding. An empty document is a single unknown word.

    Parameters
    ----------
    copies, n_inputs, dimension, n_outputs, dropout
        As for `WordExtractor`.
    hidden
        Width of the state of each direction.
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
        width = hidden * (2 if both_directions else 1)
        super().__init__(copies, n_inputs, dimension, width, n_outputs, dropout)
        self.recurrent = nn.ModuleList(
            nn.LSTM(dimension, hidden, batch_first=True, bidirectional=both_directions) for _ in range(copies)
        )
        self.attention = uniform(copies, width, fan_in=width) if attention else None

    def forward(self, x: Rows, copy: int | None = None) -> Tensor:
        copies = range(self.copies) if copy is None else [copy]
        each = len(x) // len(copies)
        words = self._in_table(_with_a_word(x), copy)
        # Each word is a row of its own, so that the vectors' gradients come by rows like those of all tables.
        one_by_one = Rows(words.index, words.value, torch.arange(len(words.index) + 1, device=words.index.device))
        look_up = row_sum_with_row_gradient if self._learns_by_rows else row_sum
        vectors = look_up(one_by_one, self.vectors)  # (words, dimension)
        lengths = words.offset.diff()
        summaries = []
        for place, c in enumerate(copies):
            rows = slice(place * each, (place + 1) * each)
            packed = _packed(vectors, words.offset[place * each : (place + 1) * each], lengths[rows])
            summaries.append(self._summary(c, packed))
        return self._features(torch.stack(summaries), copy)

    def _summary(self, copy: int, packed: PackedSequence) -> Tensor:
        """One vector for each document, shape (documents, width)."""
        states, (last, _) = self.recurrent[copy](packed)
        if self.attention is None:
            return last.transpose(0, 1).flatten(1)  # the last state of each direction
        h = states.data  # (words, width)
        assert packed.sorted_indices is not None
        documents = len(packed.sorted_indices)
        document = torch.cat([packed.sorted_indices[:size] for size in packed.batch_sizes.tolist()])
        scores = h @ self.attention[copy]
        highest = scores.new_full((documents,), -torch.inf).scatter_reduce(0, document, scores.detach(), "amax")
        alpha = (scores - highest[document]).exp()
        total = alpha.new_zeros(documents).index_add(0, document, alpha)
        return h.new_zeros(documents, h.shape[1]).index_add(0, document, (alpha / total[document])[:, None] * h)


def _with_a_word(x: Rows) -> Rows:
    """Return the rows with word 0, the unknown one, in each that has none."""
    lengths = x.offset.diff()
    if (lengths > 0).all():
        return x
    offset = torch.zeros_like(x.offset)
    torch.cumsum(lengths.clamp(min=1), 0, out=offset[1:])
    index = x.index.new_zeros(int(offset[-1]))
    value = x.value.new_ones(len(index))
    kept = offset[:-1][x.row_of_value] + torch.arange(len(x.index), device=offset.device) - x.offset[x.row_of_value]
    index[kept] = x.index
    return Rows(index, value, offset)


def _packed(vectors: Tensor, start: Tensor, lengths: Tensor) -> PackedSequence:
    """Documents as torch's recurrent networks want them: step by step, the longest first, without padding."""
    longest_first = torch.argsort(lengths, descending=True, stable=True)
    rank = torch.argsort(longest_first)
    document = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)
    first = torch.cumsum(lengths, 0) - lengths
    step = torch.arange(len(document), device=lengths.device) - first[document]
    order = torch.argsort(step * len(lengths) + rank[document])
    place = (start[document] + step)[order]
    return PackedSequence(vectors[place], torch.bincount(step).cpu(), longest_first, rank)
