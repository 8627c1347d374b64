"""Extractors on sparse rows, against plain stacks of dense layers with the same weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from torch import Tensor, nn

from multidomain.nn.extractors.mlp import MLPExtractor
from multidomain.nn.sparse import SparseMatrix

N_INPUTS, N_OUTPUTS, ROWS = 11, 3, 4
HIDDEN = [(), (5,), (7, 5)]


def sparse_input(n_rows: int, seed: int = 0) -> tuple[SparseMatrix, Tensor]:
    """The same rows sparse and dense, in float64; row 1 is empty."""
    random = np.random.default_rng(seed)
    matrix = random.normal(size=(n_rows, N_INPUTS)) * (random.random((n_rows, N_INPUTS)) < 0.4)
    matrix[1] = 0
    return SparseMatrix(csr_matrix(matrix), dtype=torch.float64), torch.from_numpy(matrix)


def dense_stack(extractor: MLPExtractor, copy: int) -> nn.Sequential:
    """A textbook perceptron with the weights of one copy."""
    start = copy * N_INPUTS
    layers = [(extractor.first_weight[start : start + N_INPUTS], extractor.first_bias[copy, 0])]
    layers += [(w[copy], b[copy, 0]) for w, b in zip(extractor.weights, extractor.biases, strict=True)]
    modules: list[nn.Module] = []
    for weight, bias in layers:
        linear = nn.Linear(*weight.shape, dtype=torch.float64)
        with torch.no_grad():
            linear.weight.copy_(weight.T)
            linear.bias.copy_(bias)
        modules += [linear, nn.ReLU()]
    return nn.Sequential(*modules)


def gradients_of_stack(stack: nn.Sequential) -> list[tuple[Tensor, Tensor]]:
    return [(m.weight.grad.T, m.bias.grad) for m in stack if isinstance(m, nn.Linear)]  # type: ignore[union-attr]


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("copies", [1, 3])
def test_equals_dense_stacks_in_values_and_gradients(copies: int, hidden: tuple[int, ...]):
    torch.manual_seed(0)
    extractor = MLPExtractor(copies, N_INPUTS, hidden, N_OUTPUTS, dropout=0.0).double()
    sparse, dense = sparse_input(copies * ROWS)
    output = extractor(sparse.take(np.arange(copies * ROWS)))
    assert output.shape == (copies, ROWS, N_OUTPUTS)
    towards = torch.randn(output.shape, dtype=torch.float64)
    (output * towards).sum().backward()

    for copy in range(copies):
        stack = dense_stack(extractor, copy)
        expected = stack(dense[copy * ROWS : (copy + 1) * ROWS])
        torch.testing.assert_close(output[copy], expected, rtol=1e-12, atol=1e-12)
        (expected * towards[copy]).sum().backward()
        start = copy * N_INPUTS
        got = [(extractor.first_weight.grad[start : start + N_INPUTS], extractor.first_bias.grad[copy, 0])]
        got += [(w.grad[copy], b.grad[copy, 0]) for w, b in zip(extractor.weights, extractor.biases, strict=True)]
        for ours, theirs in zip(got, gradients_of_stack(stack), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
        assert any(g.abs().sum() > 0 for pair in got for g in pair)


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("copy", [0, 1, 2])
def test_one_copy_is_its_slice(copy: int, hidden: tuple[int, ...]):
    torch.manual_seed(0)
    extractor = MLPExtractor(3, N_INPUTS, hidden, N_OUTPUTS, dropout=0.0).double()
    sparse, dense = sparse_input(5)
    output = extractor(sparse.take(np.arange(5)), copy=copy)
    assert output.shape == (1, 5, N_OUTPUTS)
    torch.testing.assert_close(output[0], dense_stack(extractor, copy)(dense), rtol=1e-12, atol=1e-12)
    together = extractor(sparse.take(np.tile(np.arange(5), 3)))
    torch.testing.assert_close(output[0], together[copy], rtol=1e-12, atol=1e-12)


def test_one_copy_trains_only_itself():
    extractor = MLPExtractor(3, N_INPUTS, (5,), N_OUTPUTS, dropout=0.0).double()
    with torch.no_grad():  # so that no ReLU is closed
        for parameter in extractor.parameters():
            parameter.abs_()
    sparse = SparseMatrix(csr_matrix(np.ones((5, N_INPUTS))), dtype=torch.float64)
    extractor(sparse.take(np.arange(5)), copy=1).sum().backward()
    by_copy = [
        extractor.first_weight.grad.unflatten(0, (3, N_INPUTS)),
        extractor.first_bias.grad,
        extractor.weights[0].grad,
        extractor.biases[0].grad,
    ]
    for gradient in by_copy:
        assert not gradient[0].any() and not gradient[2].any()
        assert (gradient[1] > 0).all()


def test_no_rows():
    extractor = MLPExtractor(3, N_INPUTS, (5,), N_OUTPUTS, dropout=0.0).double()
    nothing = sparse_input(2)[0].take(np.empty(0, dtype=int))
    assert extractor(nothing, copy=1).shape == (1, 0, N_OUTPUTS)


def test_output_is_never_negative():
    extractor = MLPExtractor(2, N_INPUTS, (5,), N_OUTPUTS, dropout=0.0).double()
    output = extractor(sparse_input(20)[0].take(np.arange(20)))
    assert (output >= 0).all() and (output == 0).any() and (output > 0).any()


def test_initialised_as_linear_layers_are():
    """Uniform within 1 / sqrt(fan in) of one copy, and filling that range."""
    torch.manual_seed(0)
    extractor = MLPExtractor(4, 400, (100, 50), 64, dropout=0.0)
    fan_in = {
        "first_weight": 400,
        "first_bias": 400,
        "weights.0": 100,
        "biases.0": 100,
        "weights.1": 50,
        "biases.1": 50,
    }
    assert {name for name, _ in extractor.named_parameters()} == set(fan_in)
    for name, parameter in extractor.named_parameters():
        bound = fan_in[name] ** -0.5
        assert 0.95 * bound < parameter.abs().max() <= bound, name
        assert parameter.std().item() == pytest.approx(bound / 3**0.5, rel=0.1), name
        assert parameter.mean().item() == pytest.approx(0, abs=0.15 * bound), name


def test_copies_start_differently():
    extractor = MLPExtractor(2, N_INPUTS, (5,), N_OUTPUTS, dropout=0.0)
    assert not torch.equal(extractor.first_weight[:N_INPUTS], extractor.first_weight[N_INPUTS:])
    assert not torch.equal(extractor.weights[0][0], extractor.weights[0][1])


def test_dropout_drops_inputs_and_keeps_their_expectation():
    """With a linear first layer only (weights and bias positive, so that ReLU does nothing)."""
    torch.manual_seed(0)
    extractor = MLPExtractor(1, N_INPUTS, (), N_OUTPUTS, dropout=0.4).double()
    with torch.no_grad():
        extractor.first_weight.abs_()
        extractor.first_bias.zero_()
    many = 40_000
    x = SparseMatrix(csr_matrix(np.arange(1.0, N_INPUTS + 1)[None]), dtype=torch.float64)
    batch = x.take(np.zeros(many, dtype=int))
    exact = extractor.eval()(x.take(np.array([0])))[0, 0]
    samples = extractor.train()(batch)[0]
    values = torch.arange(1.0, N_INPUTS + 1, dtype=torch.float64)
    variance = ((values[:, None] * extractor.first_weight.detach()) ** 2).sum(0) * 0.4 / 0.6
    error = (samples.mean(0) - exact).abs() / (variance / many).sqrt()
    assert (error < 4.5).all(), "more than 4.5 standard errors away"
    torch.testing.assert_close(samples.var(0), variance, rtol=0.05, atol=0)


def test_dropout_acts_before_every_layer():
    """An input that is dropped with certainty leaves the biases alone, whatever the layer."""
    extractor = MLPExtractor(1, N_INPUTS, (5,), N_OUTPUTS, dropout=0.999999).double().train()
    torch.manual_seed(0)
    output = extractor(sparse_input(4)[0].take(np.arange(4)))
    torch.testing.assert_close(output[0], extractor.biases[0][0].relu().expand(4, -1))


def test_no_dropout_when_evaluating():
    extractor = MLPExtractor(2, N_INPUTS, (5,), N_OUTPUTS, dropout=0.5).double().eval()
    batch = sparse_input(8)[0].take(np.arange(8))
    torch.testing.assert_close(extractor(batch), extractor(batch), rtol=0, atol=0)
    extractor.train()
    assert not torch.equal(extractor(batch), extractor(batch))
