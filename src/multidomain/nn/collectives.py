"""What processes that train one network tell each other: sums, gradients, decisions.

Each process computes the loss of its share of a batch. The loss of the whole batch is the mean of theirs, and so is its
gradient. What enters the loss other than linearly, such as the statistics of batch norm, is averaged before.
"""

from __future__ import annotations

import atexit
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy as np
import torch
from torch import Tensor

from multidomain.errors import WorkerError
from multidomain.nn.kernels.row_sum import RowGradient
from multidomain.nn.sparse import SparseBatch
from multidomain.processes import number_of_processes, rank

_TIMEOUT = timedelta(days=1)  # the first process prepares and evaluates alone; one that dies is noticed at once
_LOST = re.compile("gloo|nccl|socket|connect|peer|timed out", re.IGNORECASE)  # in errors that have no type of their own
_joined = False
_in_step = False


@contextmanager
def joined(device: str) -> Iterator[None]:
    """Connect the processes that torchrun has started, if there are several, while a block trains on `device`."""
    global _joined
    if number_of_processes() == 1 or _joined:
        yield
        return
    import torch.distributed as dist

    if not dist.is_initialized():  # they stay connected: to meet again they would need another address
        _call(dist.init_process_group, "cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo", timeout=_TIMEOUT)
        atexit.register(dist.destroy_process_group)
    _joined = True
    try:
        yield
    finally:
        _joined = False


def are_joined() -> bool:
    """Tell whether several processes train together now."""
    return _joined


def share() -> tuple[int, int]:
    """Return the number of this process and of all that train together."""
    return (rank(), number_of_processes()) if _joined else (0, 1)


@contextmanager
def training_step() -> Iterator[None]:
    """Mark what all processes do together; outside of it one may use the same network alone."""
    global _in_step
    _in_step = _joined
    try:
        yield
    finally:
        _in_step = False


def in_shared_step() -> bool:
    """Tell whether all processes do the same step now, each on its share of the batch."""
    return _in_step


def mean_over_processes(x: Tensor) -> Tensor:
    """Return the mean of a tensor over all processes in a shared step, and the tensor otherwise; differentiable."""
    return _Mean.apply(x) if _in_step else x


class _Mean(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return _mean(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _mean(gradient)  # every process's loss depends on the mean


def _mean(x: Tensor) -> Tensor:
    import torch.distributed as dist

    total = x.detach().clone(memory_format=torch.contiguous_format)
    _call(dist.all_reduce, total)
    return total / number_of_processes()


def share_gradients(parameters: Sequence[Tensor]) -> None:
    """Replace gradients by their means over all processes, in a shared step."""
    if not _in_step:
        return
    dense = [p.grad for p in parameters if p.grad is not None]
    if dense:
        means = _mean(torch.cat([gradient.flatten() for gradient in dense]))
        for gradient, mean in zip(dense, means.split([g.numel() for g in dense]), strict=True):
            gradient.copy_(mean.view_as(gradient))
    for p in parameters:
        by_row = getattr(p, "row_gradient", None)
        if by_row is not None:
            p.row_gradient = _of_all_processes(by_row)  # type: ignore[attr-defined]


def _of_all_processes(gradient: RowGradient) -> RowGradient:
    """Return the mean of row gradients: what was computed is laid end to end, and the batch refers to all of it."""
    batch = gradient.batch
    parts = _gathered(gradient.rows, batch.index, batch.value, batch.offset, gradient.of_output)
    rows, index, value, offset, of_output = zip(*parts, strict=True)
    all_rows = np.unique(torch.cat(rows).numpy())
    first_output = np.cumsum([0, *(len(part) for part in of_output)])
    row_of_value = np.concatenate([np.repeat(r.numpy(), np.diff(o.numpy())) for r, o in zip(rows, offset, strict=True)])
    output = np.concatenate([i.numpy() + first for i, first in zip(index, first_output, strict=False)])
    order = row_of_value.argsort(kind="stable")
    counts = np.bincount(np.searchsorted(all_rows, row_of_value), minlength=len(all_rows))
    together = SparseBatch(
        torch.from_numpy(output[order]),
        torch.cat(value)[torch.from_numpy(order)],
        torch.from_numpy(np.concatenate([[0], counts.cumsum()])),
    )
    return RowGradient(torch.from_numpy(all_rows), together, torch.cat(of_output) / len(parts))


def rows_of_all(rows: Tensor) -> Tensor:
    """Return the row numbers of all processes in a shared step, and those given otherwise."""
    return torch.cat([part for (part,) in _gathered(rows)]) if _in_step else rows


def _gathered(*tensors: Tensor) -> list[tuple[Tensor, ...]]:
    """Return the tensors of each process, which may differ in length."""
    import torch.distributed as dist

    n = number_of_processes()
    own = torch.tensor([len(tensor) for tensor in tensors])
    lengths = [torch.empty_like(own) for _ in range(n)]
    _call(dist.all_gather, lengths, own)
    of_each: list[dict[int, Tensor]] = [{} for _ in range(n)]
    for kind in dict.fromkeys(tensor.dtype for tensor in tensors):  # one message for all tensors of a type
        places = [place for place, tensor in enumerate(tensors) if tensor.dtype == kind]
        sizes = [[int(length[p]) * math.prod(tensors[p].shape[1:]) for p in places] for length in lengths]
        padded = tensors[places[0]].new_zeros(max(map(sum, sizes)))
        flat = torch.cat([tensors[place].detach().flatten() for place in places])
        padded[: len(flat)] = flat
        received = [torch.empty_like(padded) for _ in range(n)]
        _call(dist.all_gather, received, padded)
        for parts, one, split in zip(of_each, received, sizes, strict=True):
            pieces = one[: sum(split)].split(split)
            parts |= {p: piece.view(-1, *tensors[p].shape[1:]) for p, piece in zip(places, pieces, strict=True)}
    return [tuple(parts[place] for place in range(len(tensors))) for parts in of_each]


def values_of_all(values: Sequence[float]) -> np.ndarray:
    """Return the numbers that each process gives, as many as the others; shape (processes, values)."""
    import torch.distributed as dist

    own = torch.tensor(values, dtype=torch.float64)
    received = [torch.empty_like(own) for _ in range(number_of_processes())]
    _call(dist.all_gather, received, own)
    return torch.stack(received).numpy()


def from_first(function: Callable[[], Any]) -> Any:
    """Call a function in the first process alone, and return its result, as JSON has it, in all."""
    if not _joined:
        return function()
    import torch.distributed as dist

    content = json.dumps(function()).encode() if rank() == 0 else b""
    size = torch.tensor([len(content)])
    _call(dist.broadcast, size, 0)
    sent = torch.tensor(list(content) or [0] * int(size), dtype=torch.uint8)
    _call(dist.broadcast, sent, 0)
    return json.loads(bytes(sent.tolist()))


def share_weights(weights: Mapping[str, Tensor]) -> None:
    """Replace weights by those of the first process."""
    if _joined:
        import torch.distributed as dist

        for weight in weights.values():
            _call(dist.broadcast, weight.detach(), 0)


def _call(function: Callable[..., Any], *arguments: Any, **options: Any) -> None:
    try:
        function(*arguments, **options)
    except RuntimeError as error:
        import torch.distributed as dist

        if not isinstance(error, dist.DistError) and not _LOST.search(str(error)):
            raise  # such as memory that ran out here
        why = " ".join(str(error).split())[:200].rstrip(".")
        raise WorkerError(
            f"Another process of this training has ended, or cannot be reached ({why}).",
            "Go on from the last checkpoint with the same command and {resume}.",
        ) from error
