"""C and D: what they compute, and that a frozen head is left alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from multidomain.nn.heads import Head

DOMAINS, ROWS, SIZE, OUTPUTS = 3, 4, 5, 2


def features() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(DOMAINS, ROWS, SIZE, generator=generator, dtype=torch.float64)


def snapshot(head: Head) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in head.state_dict().items()}


def unchanged(head: Head, before: dict[str, Tensor]) -> bool:
    return all(torch.equal(before[name], value) for name, value in head.state_dict().items())


@pytest.mark.parametrize("norm", ["all-domains", "per-domain", "none"])
def test_equals_the_textbook_head(norm: str):
    """Linear, norm, ReLU, linear; the hidden layer is as wide as the input."""
    head = Head(SIZE, OUTPUTS, dropout=0.0, norm=norm).double()  # type: ignore[arg-type]
    hidden = nn.Linear(SIZE, SIZE, bias=norm == "none").double()
    out = nn.Linear(SIZE, OUTPUTS).double()
    hidden.load_state_dict(head.hidden.state_dict())
    out.load_state_dict(head.out.state_dict())
    norms = {
        "all-domains": lambda h: nn.BatchNorm1d(SIZE).double()(h.flatten(0, 1)).view_as(h),
        "per-domain": lambda h: torch.stack([nn.BatchNorm1d(SIZE).double()(rows) for rows in h]),
        "none": lambda h: h,
    }
    expected = out(torch.relu(norms[norm](hidden(features()))))
    torch.testing.assert_close(head(features()), expected, rtol=1e-12, atol=1e-12)
    assert expected.shape == (DOMAINS, ROWS, OUTPUTS)


def test_output_are_logits():
    torch.manual_seed(0)
    logits = Head(SIZE, OUTPUTS, 0.0, "all-domains").double()(10 * features())
    assert (logits < 0).any() and (logits > 0).any()
    assert not torch.allclose(logits.sum(-1), torch.ones(DOMAINS, ROWS, dtype=torch.float64))


def test_dropout_is_on_in_training_only():
    head = Head(SIZE, OUTPUTS, dropout=0.5, norm="none").double()
    assert not torch.equal(head(features()), head(features()))
    head.eval()
    assert torch.equal(head(features()), head(features()))


@pytest.mark.parametrize("norm", ["all-domains", "per-domain", "none"])
def test_frozen_passes_the_gradient_on_and_stays_as_it_is(norm: str):
    head = Head(SIZE, OUTPUTS, dropout=0.0, norm=norm).double()  # type: ignore[arg-type]
    free, fixed = features().requires_grad_(), features().requires_grad_()
    head(free)[..., 0].square().sum().backward()
    head.zero_grad(set_to_none=True)
    before = snapshot(head)
    with head.frozen():
        loss = head(fixed)[..., 0].square().sum()
    loss.backward()  # after the block, as a training step does
    assert unchanged(head, before)
    assert all(parameter.grad is None for parameter in head.parameters())
    torch.testing.assert_close(fixed.grad, free.grad, rtol=1e-12, atol=1e-12)
    assert fixed.grad.abs().sum() > 0


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("norm", ["all-domains", "per-domain"])
def test_frozen_ends_with_its_block_also_after_an_error(norm: str, fails: bool):
    head = Head(SIZE, OUTPUTS, dropout=0.0, norm=norm).double()  # type: ignore[arg-type]
    try:
        with head.frozen():
            if fails:
                raise RuntimeError("in the middle")
    except RuntimeError:
        assert fails
    before = snapshot(head)
    head(features()).sum().backward()
    assert all(parameter.requires_grad and parameter.grad is not None for parameter in head.parameters())
    assert not torch.equal(before["norm.running_mean"], head.norm.running_mean)
    assert not torch.equal(before["norm.running_var"], head.norm.running_var)


def test_frozen_says_nothing_about_evaluation():
    head = Head(SIZE, OUTPUTS, dropout=0.0, norm="all-domains").double()
    head(features())
    head.eval()
    expected = head(features())
    with head.frozen():
        torch.testing.assert_close(head(features()), expected, rtol=0, atol=0)


def test_the_first_layer_has_a_bias_only_where_no_norm_takes_it_away():
    """Its gradient would be rounding noise, which Adam blows up to full steps: a random walk.

    In training the norm removes it, but the running mean lags behind it, so that predictions would depend on the
    number of threads.
    """
    assert Head(SIZE, OUTPUTS, 0.0, "all-domains").hidden.bias is None
    assert Head(SIZE, OUTPUTS, 0.0, "per-domain").hidden.bias is None
    assert Head(SIZE, OUTPUTS, 0.0, "none").hidden.bias is not None
