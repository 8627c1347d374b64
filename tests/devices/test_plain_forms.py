"""What runs on accelerators, in plain torch, against the compiled loops of the CPU: on the CPU, in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from torch import Tensor, nn

from multidomain.methods.gradient import GradientMethod
from multidomain.methods.registry import method_entry
from multidomain.methods.task import Task
from multidomain.nn import kernels
from multidomain.nn.adam import DenseAdam
from multidomain.nn.extractors.cnn import CNNExtractor
from multidomain.nn.gradients import clip_dense, clip_gradients
from multidomain.nn.kernels import padded_conv, row_sum
from multidomain.nn.kernels.conv_pool import conv_pool
from multidomain.nn.sparse import SparseBatch, SparseMatrix
from multidomain.training.sampling import DomainStream

WORDS, ROWS, BATCH, STEPS = 40, 15, 4, 6
EXACT = {"rtol": 1e-10, "atol": 1e-12}


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Switches the compiled loops off, as on an accelerator."""

    def switch(*, fused: bool = False) -> None:
        monkeypatch.setattr(kernels, "run_on", lambda device: False)
        monkeypatch.setattr(kernels, "has_fused", lambda device: fused)

    yield switch


def documents(lengths: list[int], seed: int = 0) -> SparseBatch:
    generator = torch.Generator().manual_seed(seed)
    index = torch.randint(WORDS, (sum(lengths),), generator=generator)
    value = torch.rand(len(index), generator=generator, dtype=torch.float64) + 0.5
    return SparseBatch(index, value, torch.tensor([0, *np.cumsum(lengths).tolist()]))


def grown(seed: int, *shape: int) -> nn.Parameter:
    generator = torch.Generator().manual_seed(seed)
    return nn.Parameter(torch.randn(*shape, generator=generator, dtype=torch.float64))


@pytest.mark.parametrize("at_a_time", [1, 7, 10**6])
def test_sums_of_weight_rows(at_a_time: int, monkeypatch: pytest.MonkeyPatch, plain: Any):
    x, weight = documents([3, 0, 5, 1, 4]), grown(1, WORDS, 6)
    outer = torch.randn(5, 6, dtype=torch.float64)
    expected = row_sum.row_sum(x, weight)
    (of_weight,) = torch.autograd.grad((expected * outer).sum(), weight)
    plain()
    monkeypatch.setattr(row_sum, "_AT_A_TIME", at_a_time)
    sums = row_sum.row_sum(x, weight)
    torch.testing.assert_close(sums, expected, **EXACT)
    torch.testing.assert_close(torch.autograd.grad((sums * outer).sum(), weight)[0], of_weight, **EXACT)


@pytest.mark.parametrize("copies", [1, 2, 3])
@pytest.mark.parametrize(
    "lengths",
    [[9, 5, 30, 12, 7, 6], [1, 2, 3, 4, 0, 2], [0, 1, 40, 3, 0, 0], [0] * 6],
    ids=["long", "short", "mixed", "no"],
)
@pytest.mark.parametrize("at_a_time", [1, 100, 10**6])
def test_convolution(lengths: list[int], copies: int, at_a_time: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(padded_conv, "_WORDS_AT_A_TIME", at_a_time)
    sizes = (3, 4, 5)
    x, table, filters = documents(lengths), grown(1, WORDS, 6), grown(2, copies, 12, 7, 6)
    expected = conv_pool(x, table, filters, sizes, learns_words=False)
    outer = torch.randn(expected.shape, dtype=torch.float64)
    gradients = torch.autograd.grad((expected * outer).sum(), (table, filters))
    pooled = padded_conv.padded_conv_pool(x, table, filters, sizes)
    torch.testing.assert_close(pooled, expected, **EXACT)
    for ours, theirs in zip(torch.autograd.grad((pooled * outer).sum(), (table, filters)), gradients, strict=True):
        torch.testing.assert_close(ours, theirs, **EXACT)


def test_convolution_of_no_documents():
    extractor = CNNExtractor(1, WORDS, 6, (3, 4), 7, 4, dropout=0.0).double()
    none = padded_conv.padded_conv_pool(documents([]), extractor.vectors, extractor.filters, extractor.sizes)
    assert none.shape == (0, 14)


def test_dropout_keeps_the_mean_and_scales_up(plain: Any):
    plain()
    n, offset = 10_000, torch.tensor([0, 5_000, 10_000])
    x = SparseBatch(torch.arange(n), torch.ones(n), offset, counts=np.full(2, n // 2))
    dropped = x.with_dropout(0.4)
    assert torch.equal(dropped.index, x.index) and dropped.counts is not None
    assert set(dropped.value.unique().tolist()) == {0.0, float(torch.tensor(1.0) / 0.6)}
    assert float(dropped.value.mean()) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("clip_norm", [0.5, 1e3])
def test_clipping(clip_norm: float):
    ours, theirs = [grown(i, 3, i + 1) for i in range(3)], [grown(i, 3, i + 1) for i in range(3)]
    for p, q in zip(ours, theirs, strict=True):
        p.grad, q.grad = p.detach() * 2, q.detach() * 2
    clip_dense(ours, clip_norm)
    clip_gradients(theirs, clip_norm)
    for p, q in zip(ours, theirs, strict=True):
        torch.testing.assert_close(p.grad, q.grad, **EXACT)


def test_adam_without_the_fused_update(plain: Any):
    fused, p = DenseAdam([q := grown(0, 5, 4)], lr=0.01), grown(0, 5, 4)
    plain()
    optimiser = DenseAdam([p], lr=0.01)
    for step in range(5):
        p.grad, q.grad = (grown(step, 5, 4).detach() for _ in range(2))
        optimiser.step()
        fused.step()
    torch.testing.assert_close(p, q, **EXACT)


def made(name: str, extractor: str, **settings: Any) -> GradientMethod:
    sizes = {"mlp": {"hidden": (7, 6)}, "cnn": {"dimension": 5, "filters": 3}, "lstm": {"dimension": 5, "state": 4}}
    entry = method_entry(name)
    torch.manual_seed(3)
    given = {"extractor": extractor, "dropout": 0.0, "lr": 0.01, **sizes[extractor], **settings}
    method = entry.build(Task(WORDS, 2, ("a", "b", "c"), (0, 1)), entry.settings(given))
    return method.double()  # type: ignore[no-any-return]


def trained(method: GradientMethod) -> tuple[list[dict[str, float]], dict[str, Tensor]]:
    """What some steps log, and the weights after them."""
    random = np.random.default_rng(0)
    lengths = np.r_[0, random.integers(1, 9, 3 * ROWS - 1)]
    offset = np.r_[0, lengths.cumsum()]
    matrix = csr_matrix((np.ones(offset[-1]), random.integers(WORDS, size=offset[-1]), offset), (3 * ROWS, WORDS))
    rows = SparseMatrix(matrix, dtype=torch.float64)
    pools = [[np.arange(d * ROWS, (d + 1) * ROWS)] for d in range(3)]
    X = DomainStream(rows, pools[:2], random.integers(2, size=3 * ROWS), BATCH, (0, 0))
    U = DomainStream(rows, pools, None, BATCH, (0, 1))
    method.clip_norm = 2.0
    method.start_training()
    method.train()
    log = [{name: float(v) for name, v in method.step(X, U, 0, i).items()} for i in range(STEPS)]
    method.flush()
    return log, {name: value.clone() for name, value in method.state_dict().items()}


@pytest.mark.parametrize("fused", [False, True], ids=["as on mps", "as on cuda"])
@pytest.mark.parametrize(
    ("name", "extractor", "settings"),
    [
        ("man-nll", "mlp", {}),
        ("man-l2", "mlp", {"norm": "per-domain"}),
        ("man-nll", "cnn", {}),
        ("man-nll", "lstm", {}),
        ("can", "mlp", {}),
        ("dann", "cnn", {}),
        ("mdan-smax", "mlp", {}),
        ("asp-mtl", "lstm", {}),
    ],
)
def test_whole_steps(name: str, extractor: str, settings: dict[str, Any], fused: bool, plain: Any):
    """First layers by rows or as a whole, heads by hand or by autograd: the same losses and weights."""
    expected = trained(made(name, extractor, **settings))
    plain(fused=fused)
    got = trained(made(name, extractor, **settings))
    for step, (ours, theirs) in enumerate(zip(got[0], expected[0], strict=True)):
        assert ours == pytest.approx(theirs, rel=1e-6), step
    # Adam divides by the root of the second moment: where gradients are next to nothing, rounding is all there is.
    for weight in expected[1]:
        torch.testing.assert_close(got[1][weight], expected[1][weight], rtol=1e-5, atol=1e-7, msg=weight)
