"""Steps of networks on a device that is not there, in a process of its own: prints what came of each case as JSON.

The device is torch's stand-in for those of other makers, and tensors are fake: they have a device, a type and a shape,
and no values. An operation on tensors of two devices is an error as on a real one, and so is whatever has to wait for a
value: a shape that depends on the data, a number that Python asks for.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from multidomain.methods.gradient import GradientMethod
from multidomain.methods.registry import method_entry
from multidomain.methods.task import Task
from multidomain.nn import kernels
from multidomain.nn.sparse import SparseMatrix
from multidomain.training.sampling import DomainStream

DEVICE, WORDS, ROWS, BATCH = "standin", 30, 12, 4
TASK = Task(WORDS, 2, ("a", "b", "c"), (0, 1))  # c has no labels
SIZES: dict[str, dict[str, Any]] = {
    "mlp": {"hidden": (6, 5)},
    "cnn": {"dimension": 5, "filters": 3},
    "lstm": {"dimension": 5, "state": 4},
    "bilstm": {"dimension": 5, "state": 4},
    "bilstm-attention": {"dimension": 5, "state": 4},
}


def made(name: str, extractor: str, **settings: Any) -> GradientMethod:
    entry = method_entry(name)
    given = {"extractor": extractor, **SIZES[extractor], **settings}
    return entry.build(TASK, entry.settings({key: v for key, v in given.items() if key not in entry.fixed}))


def moved(method: GradientMethod) -> GradientMethod:
    """What ``to(DEVICE)`` does, which fake tensors do not support: parameters and buffers move, and nothing else."""
    for module in method.modules():
        for name, p in module._parameters.items():
            module._parameters[name] = None if p is None else torch.nn.Parameter(p.data.to(DEVICE), p.requires_grad)
        for name, value in module._buffers.items():
            module._buffers[name] = None if value is None else value.to(DEVICE)
    return method


def streams(*, weighted: bool) -> tuple[DomainStream, DomainStream]:
    random = np.random.default_rng(0)
    lengths = np.r_[0, random.integers(1, 9, 3 * ROWS - 1)]  # the first document is empty
    offset = np.r_[0, lengths.cumsum()]
    matrix = csr_matrix((np.ones(offset[-1]), random.integers(WORDS, size=offset[-1]), offset), (3 * ROWS, WORDS))
    rows = SparseMatrix(matrix, DEVICE)
    pools = [[np.arange(d * ROWS, (d + 1) * ROWS)] for d in range(3)]
    weight = random.random(3 * ROWS) + 0.5 if weighted else None
    y = random.integers(2, size=3 * ROWS)
    return DomainStream(rows, pools[:2], y, BATCH, (0, 0), weight), DomainStream(rows, pools, None, BATCH, (0, 1))


def train(
    name: str, extractor: str, *, weighted: bool = False, clip: bool = False, ratio: bool = False, **settings: Any
):
    """Two steps, and a prediction: of a domain with labels, of one without, and of an unknown one."""
    method = moved(made(name, extractor, **settings))
    method.clip_norm = 1.0 if clip else None
    if ratio:
        method.prior_ratio = torch.ones(3, 2).to(DEVICE)
    X, U = streams(weighted=weighted)
    method.start_training()
    method.train()
    for i in range(2):
        log = method.step(X, U, epoch=0, i=i)
        elsewhere = {name for name, value in log.items() if value.device.type != DEVICE}
        assert not elsewhere, f"logged elsewhere: {elsewhere}"
    without = [name for name, p in method.named_parameters() if p.requires_grad and p.grad is None]
    assert not without, f"no gradient of {without}"
    method.eval()
    batch = U.sample().x
    for d in (0, 2, None) if method.requirements(method.settings).unseen_domains else (0,):
        assert method.batch_logits(batch, d).device.type == DEVICE


def with_fused(name: str, extractor: str) -> None:
    """The same with the operations that CUDA has."""
    before, kernels.has_fused = kernels.has_fused, lambda device: True
    try:
        train(name, extractor)
    finally:
        kernels.has_fused = before


def refused(what: Callable[[], Any]) -> None:
    """Expect an error: the stand-in notices what should not be done."""
    try:
        what()
    except Exception:
        return
    raise AssertionError("it was not noticed")


def cases() -> Iterator[tuple[str, Callable[[], Any]]]:
    for extractor in SIZES:
        yield f"man-nll {extractor}", lambda extractor=extractor: train("man-nll", extractor)
    for name in ("can", "dann", "asp-mtl"):
        for extractor in ("mlp", "cnn", "lstm"):
            yield f"{name} {extractor}", lambda name=name, extractor=extractor: train(name, extractor)
    for name in ("man-l2", "sp", "mdan-hmax", "mdan-smax", "fs-mtl"):
        yield f"{name} mlp", lambda name=name: train(name, "mlp")
    for name, extractor in (("man-nll", "mlp"), ("asp-mtl", "lstm")):  # as on CUDA
        yield f"{name} {extractor}, fused", lambda name=name, extractor=extractor: with_fused(name, extractor)
    yield "no adversary, bilstm", lambda: train("bilstm", "bilstm", category="shared")
    yield "frozen vectors", lambda: train("man-nll", "cnn", tune_vectors=False)
    for name in ("man-nll", "can", "dann", "mdan-smax"):
        yield f"{name} weighted and clipped", lambda name=name: train(name, "mlp", weighted=True, clip=True)
    yield "class priors", lambda: train("man-nll", "mlp", ratio=True)
    yield "norm per domain", lambda: train("man-nll", "mlp", norm="per-domain")
    yield "no norm, warm-up", lambda: train("man-nll", "mlp", norm="none", warm_up=True)
    yield "a tensor elsewhere is noticed", lambda: refused(lambda: torch.ones(2).to(DEVICE) + torch.ones(2))
    yield "a value asked for is noticed", lambda: refused(lambda: float(torch.rand(2).to(DEVICE).sum()))
    yield "a shape of the data is noticed", lambda: refused(lambda: torch.rand(2).to(DEVICE).nonzero())


def outcome(case: Callable[[], Any]) -> str | None:
    try:
        with FakeTensorMode(allow_non_fake_inputs=False):
            case()
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:400]}"
    return None


if __name__ == "__main__":
    _setup_privateuseone_for_python_backend(DEVICE)
    json.dump({name: outcome(case) for name, case in cases()}, sys.stdout)
