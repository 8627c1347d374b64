"""The trunk of a network: a pretrained encoder that reads each text once, for shared and private features."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from multidomain.nn.encoders.activations import Activations
from multidomain.nn.encoders.batching import Group, groups_of, ids_of, rows_as_bytes
from multidomain.nn.encoders.private import Updates
from multidomain.nn.encoders.settings import EncoderSettings
from multidomain.nn.encoders.transformer import Transformer, mean_of_text
from multidomain.nn.sparse import SparseBatch, SparseMatrix


class Trunk(nn.Module):
    """A pretrained encoder, with some or all of its layers frozen.

    A batch is read in groups of texts of similar length. The layers fall into three parts: frozen ones, whose output
    can be computed once for a whole run (`remember`); those up to the first with private parts; and the rest, which
    shared features and the private ones of a domain run each for themselves.

    Parameters
    ----------
    has_shared
        Whether shared features read it, and so train it. Without them it is frozen as a whole.
    has_private_layers
        Whether private features have parts in the upper layers.
    """

    def __init__(self, encoder: Transformer, settings: EncoderSettings, *, has_shared: bool, has_private_layers: bool):
        super().__init__()
        n = encoder.config.layers
        self.encoder = encoder
        self.settings = settings
        self.has_shared = has_shared
        frozen = settings.frozen_layers if has_shared else n
        self.frozen = None if frozen is None else min(frozen, n)  # this many layers, and the embeddings
        self.first_private = n - min(settings.private_layers, n) if has_private_layers else n
        self.stored = 0 if self.frozen is None else min(self.frozen, self.first_private)  # layers before `remember`
        self.is_stored_pooled = self.stored == n
        if self.frozen is not None:
            for module in (*encoder.embeddings, *encoder.layers[: self.frozen]):
                module.requires_grad_(False)
        self._activations: Activations | None = None

    @property
    def width(self) -> int:
        """Return the width of what is read from it."""
        return self.encoder.config.width

    @property
    def private_layers(self) -> range:
        """Return the layers that private features run for themselves."""
        return range(self.first_private, self.encoder.config.layers)

    def remember(self, matrices: Iterable[SparseMatrix]) -> None:
        """Compute the output of the frozen layers for all texts of a run, if there are such layers."""
        if self.frozen is None:
            return
        self._activations = Activations(
            matrices,
            lambda x, group: self._below(ids_of(x, group), group.is_text),
            self.width,
            self.settings.tokens_at_a_time,
            lambda lengths: torch.ones_like(lengths) if self.is_stored_pooled else lengths,
        )

    def forget(self) -> None:
        """Free what `remember` has computed."""
        self._activations = None

    def forward(self, x: SparseBatch) -> Reading:
        """Read texts, given as sequences of subwords."""
        if self.training:
            return self._read(x)
        keys = rows_as_bytes(x)  # without dropout equal texts are equal: an explanation has hundreds
        number = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        if len(number) == len(keys):
            return self._read(x)
        first = {key: row for row, key in reversed(list(enumerate(keys)))}
        distinct = x.blocks([first[key] for key in number], 1)
        return self._read(distinct).take(torch.tensor([number[key] for key in keys], device=x.index.device))

    def _read(self, x: SparseBatch) -> Reading:
        """Return what the encoder reads in the texts, each for itself."""
        groups = groups_of(x.offset.diff(), self.settings.tokens_at_a_time)
        keys = rows_as_bytes(x) if self._activations is not None else []
        read = [self._group(x, group, keys) for group in groups]
        pooled = None
        if self.has_shared or not self.private_layers:
            pooled = self._in_order(read, [self._pooled(one) for one in read])
        return Reading(self, len(x), pooled, tuple(read) if self.private_layers else ())

    def _in_order(self, hidden: Sequence[Hidden], by_group: Sequence[Tensor]) -> Tensor:
        """Return what belongs to the texts of groups in the order of the texts, shape (texts, width)."""
        if not by_group:
            return next(self.parameters()).new_zeros(0, self.width)
        return torch.cat([*by_group])[torch.cat([one.rows for one in hidden]).argsort()]

    def _group(self, x: SparseBatch, group: Group, keys: Sequence[bytes]) -> Hidden:
        """Return the hidden states before the private layers."""
        own = [keys[row] for row in group.rows.tolist()] if keys else []
        if self._activations is not None and self._activations.knows(own):
            h = self._activations.take(own, x.index.device)
        else:
            h = self._below(ids_of(x, group), group.is_text)
        is_text = group.is_text[:, :1] if self.is_stored_pooled else group.is_text
        return Hidden(group.rows, is_text, self._run(h, is_text, range(self.stored, self.first_private)))

    def _below(self, ids: Tensor, is_text: Tensor) -> Tensor:
        """Return the output of the frozen layers, rounded as it is stored; or of the embeddings, if they learn."""
        if self.frozen is None:
            with self._precision(ids.device):
                return self.encoder.embed(ids, self._dropout)
        with torch.no_grad(), self._precision(ids.device):
            h = self.encoder.run(self.encoder.embed(ids), is_text, range(self.stored))
            h = mean_of_text(h.float(), is_text)[:, None] if self.is_stored_pooled else h
            return h.half().float()

    def _pooled(self, hidden: Hidden) -> Tensor:
        """Return the mean of the last layer's hidden states, shape (texts, width)."""
        h = self._run(hidden.states, hidden.is_text, self.private_layers)
        return mean_of_text(h.float(), hidden.is_text)

    def _run(self, h: Tensor, is_text: Tensor, layers: range, updates: Any = None, *, trains: bool = True) -> Tensor:
        """Run layers; dropout is in those that learn."""
        run = self.encoder.run if trains else self._run_fixed
        parts = [layers] if self.frozen is None else _cut(layers, self.frozen)
        for some in parts:
            p = self._dropout if self.frozen is None or some.start >= self.frozen else 0.0
            arguments = (h, is_text, some, p, updates)
            with self._precision(h.device):
                if self.settings.recompute and torch.is_grad_enabled() and some:
                    h = checkpoint(run, *arguments, use_reentrant=False)
                else:
                    h = run(*arguments)
        return h

    def _run_fixed(self, *arguments: Any) -> Tensor:
        """Run layers whose weights are left alone, also when they are run again for the backward pass."""
        with self._fixed():
            return self.encoder.run(*arguments)

    def private(self, hidden: Sequence[Hidden], updates: Updates, copy: Tensor, *, trains: bool) -> Tensor:
        """Return what texts of several domains read like with the updates of their domains, shape (texts, width).

        Parameters
        ----------
        copy
            Whose updates each text has.
        trains
            Whether the gradient reaches the encoder.
        """
        read = []
        for one in hidden:
            h = one.states if trains else one.states.detach()
            own = updates.of_texts(copy[one.rows])
            h = self._run(h, one.is_text, self.private_layers, own, trains=trains)
            read.append(mean_of_text(h.float(), one.is_text))
        return self._in_order(hidden, read)

    @contextmanager
    def _fixed(self) -> Iterator[None]:
        """Pass gradients through, and leave the weights alone."""
        learning = [p for p in self.parameters() if p.requires_grad]
        for p in learning:
            p.requires_grad_(False)
        try:
            yield
        finally:
            for p in learning:
                p.requires_grad_(True)

    @property
    def _dropout(self) -> float:
        return self.settings.dropout if self.training else 0.0

    def _precision(self, device: torch.device) -> torch.autocast:
        return torch.autocast(device.type, torch.bfloat16, enabled=self.settings.bfloat16)


@dataclass(frozen=True)
class Hidden:
    """Hidden states of a group of texts before the private layers.

    Attributes
    ----------
    rows
        Their places in the batch.
    is_text
        Which places are no padding, shape (texts, places).
    states
        Shape (texts, places, width).
    """

    rows: Tensor
    is_text: Tensor
    states: Tensor

    def take(self, new_row: Tensor, chosen: Tensor) -> Hidden:
        """Return some of the texts, under new places."""
        return Hidden(new_row, self.is_text[chosen], self.states[chosen])


@dataclass(frozen=True)
class Reading:
    """What a trunk has read in a batch of texts, for extractors of features.

    Attributes
    ----------
    n
        Number of texts.
    pooled
        The mean of the last hidden states, shape (texts, width); None if only private features are wanted.
    hidden
        The hidden states before the private layers, by groups; empty if there are no such layers.
    """

    trunk: Trunk
    n: int
    pooled: Tensor | None
    hidden: tuple[Hidden, ...] = ()

    def __len__(self) -> int:
        return self.n

    def __add__(self, other: Reading) -> Reading:
        """Put the texts of another reading after these."""
        pooled = None if self.pooled is None or other.pooled is None else torch.cat([self.pooled, other.pooled])
        moved = tuple(replace(one, rows=one.rows + self.n) for one in other.hidden)
        return replace(self, n=self.n + other.n, pooled=pooled, hidden=self.hidden + moved)

    def take(self, rows: Tensor) -> Reading:
        """Return some of the texts, by their places; a text may be taken twice."""
        pooled = None if self.pooled is None else self.pooled[rows]
        hidden = []
        for group in self.hidden:
            at, place = (rows[:, None] == group.rows[None, :]).nonzero(as_tuple=True)
            if len(at):
                hidden.append(group.take(at, place))
        return replace(self, n=len(rows), pooled=pooled, hidden=tuple(hidden))

    def blocks(self, chosen: Sequence[int], size: int) -> Reading:
        """Return some of the blocks of `size` texts, as those of `SparseBatch`."""
        device = self._device
        none = torch.empty(0, dtype=torch.int64, device=device)
        return self.take(torch.cat([torch.arange(b * size, (b + 1) * size, device=device) for b in chosen] or [none]))

    def split(self, at: int) -> tuple[Reading, Reading]:
        """Return the first texts, and the others."""
        return tuple(self.take(torch.arange(a, b, device=self._device)) for a, b in ((0, at), (at, self.n)))  # type: ignore[return-value]

    @property
    def _device(self) -> torch.device:
        return next(self.trunk.parameters()).device


def _cut(layers: range, at: int) -> list[range]:
    """Return a range in two, before and after a number; without empty ones."""
    parts = (range(layers.start, min(layers.stop, at)), range(max(layers.start, at), layers.stop))
    return [part for part in parts if part]
