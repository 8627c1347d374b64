"""Batch normalisation over several domains, against torch's own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from multidomain.nn.norm import DomainBatchNorm

DOMAINS, ROWS, SIZE = 3, 5, 4


def pair(over: str) -> tuple[DomainBatchNorm, nn.BatchNorm1d]:
    """Ours and torch's with the same, uneven weights."""
    ours, theirs = DomainBatchNorm(SIZE, over).double(), nn.BatchNorm1d(SIZE).double()  # type: ignore[arg-type]
    with torch.no_grad():
        for norm in (ours, theirs):
            norm.weight.copy_(torch.linspace(0.5, 2, SIZE))
            norm.bias.copy_(torch.linspace(-1, 1, SIZE))
    return ours, theirs


def batches(how_many: int) -> list[Tensor]:
    """Domains that differ in mean and scale."""
    generator = torch.Generator().manual_seed(0)
    shift = torch.arange(DOMAINS, dtype=torch.float64)[:, None, None]
    noise = torch.randn(how_many, DOMAINS, ROWS, SIZE, generator=generator, dtype=torch.float64)
    return list(3 * shift + (1 + shift) * noise)


def gradient(output: Tensor, x: Tensor) -> Tensor:
    towards = torch.randn(output.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return torch.autograd.grad((output * towards).sum(), x, retain_graph=True)[0]


def test_all_domains_is_batch_norm_of_the_whole_batch():
    ours, theirs = pair("all-domains")
    for x in batches(3):
        x.requires_grad_()
        expected = theirs(x.flatten(0, 1)).view_as(x)
        output = ours(x)
        torch.testing.assert_close(output, expected, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(gradient(output, x), gradient(expected, x), rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(ours.running_mean, theirs.running_mean, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(ours.running_var, theirs.running_var, rtol=1e-12, atol=1e-12)


def test_per_domain_is_batch_norm_of_each_block_in_turn():
    ours, theirs = pair("per-domain")
    for x in batches(3):
        x.requires_grad_()
        expected = torch.stack([theirs(rows) for rows in x])
        output = ours(x)
        torch.testing.assert_close(output, expected, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(gradient(output, x), gradient(expected, x), rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(ours.running_mean, theirs.running_mean, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(ours.running_var, theirs.running_var, rtol=1e-12, atol=1e-12)


def test_per_domain_removes_what_tells_domains_apart_and_all_domains_keeps_it():
    """Decision 3, at its root."""
    (x,) = batches(1)
    blind = DomainBatchNorm(SIZE, "per-domain").double()(x).mean(dim=1)
    seeing = DomainBatchNorm(SIZE, "all-domains").double()(x).mean(dim=1)
    torch.testing.assert_close(blind, torch.zeros_like(blind), rtol=0, atol=1e-12)
    assert (seeing[2] - seeing[0]).min() > 1


@pytest.mark.parametrize("over", ["all-domains", "per-domain"])
def test_evaluation_uses_the_running_statistics_and_leaves_them(over: str):
    ours, theirs = pair(over)
    for x in batches(2):
        ours(x)
    theirs.load_state_dict({**ours.state_dict(), "num_batches_tracked": torch.tensor(0)})
    ours.eval()
    theirs.eval()
    before = {name: value.clone() for name, value in ours.state_dict().items()}
    (x,) = batches(1)
    torch.testing.assert_close(ours(x), theirs(x.flatten(0, 1)).view_as(x), rtol=1e-12, atol=1e-12)
    assert all(torch.equal(before[name], value) for name, value in ours.state_dict().items())


@pytest.mark.parametrize("over", ["all-domains", "per-domain"])
def test_a_row_alone_is_evaluated_as_in_company(over: str):
    ours, _ = pair(over)
    (x,) = batches(1)
    ours(x)
    ours.eval()
    torch.testing.assert_close(ours(x)[1, 2], ours(x[1:2, 2:3])[0, 0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("over", ["all-domains", "per-domain"])
def test_statistics_are_kept_out_on_demand(over: str):
    """The output is the same; only the running statistics stay."""
    ours, theirs = pair(over)
    (x,) = batches(1)
    ours.keeps_statistics = False
    before = {name: value.clone() for name, value in ours.state_dict().items()}
    output = ours(x)
    assert all(torch.equal(before[name], value) for name, value in ours.state_dict().items())
    blocks = [x.flatten(0, 1)] if over == "all-domains" else list(x)
    expected = torch.cat([theirs(rows) for rows in blocks]).view_as(x)
    torch.testing.assert_close(output, expected, rtol=1e-12, atol=1e-12)
